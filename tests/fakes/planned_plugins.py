"""Plugins that do what a test plans, and a worker of this process that runs them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import ClassVar

from connect_runtime.api import task
from connect_runtime.api.config_def import ConfigDef
from connect_runtime.api.connector import SinkConnector, SourceConnector
from connect_runtime.api.errors import ConfigError
from connect_runtime.api.plugin_context import PublishedTaskConfig
from connect_runtime.api.task import PipelineTask
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.config import worker_config
from connect_runtime.storage import cluster_config_state
from connect_runtime.storage.memory_and_offset_file_logs import MemoryLog
from connect_runtime.storage.offset_store import LogOffsetBackingStore
from connect_runtime.system.system_clock import SystemClock
from connect_runtime.worker.task_factory import WorkerDeps
from connect_runtime.worker.worker import Worker
from connect_runtime.worker.worker_metrics import WorkerMetrics
from tests.fakes.task_clients import Clients, Membership, Plugins, Statuses
from tests.support.eventually import eventually

TASK = ConnectorTaskId("c", 0)
WAIT_S = 30.0
TargetState = cluster_config_state.TargetState
CONFIG = {"name": "c", "connector.class": "Source", "secret": "${p:k}"}
SINK = {"name": "c", "connector.class": "Sink", "topics": "t"}


def boom(*_):
    raise RuntimeError("out of paper")


class Plan:
    """What the plugins of a test do otherwise, by method; what they were called."""

    def __init__(self):
        self.does = {}
        self.calls = []
        self.contexts = []
        self.release = threading.Event()

    def call(self, name, *given):
        self.calls.append(name)
        return self.does[name](*given) if name in self.does else None


class Planned:
    plan: ClassVar[Plan]


class AnyConnector(Planned):
    def config(self):
        return ConfigDef()

    def version(self):
        return self.plan.call("version") or "1"

    def initialize(self, given):
        self.plan.call("connector.initialize")
        self.context = given

    def start(self, props):
        self.plan.call("connector.start", self, props)

    def stop(self):
        self.plan.call("connector.stop")

    def task_configs(self, max_tasks):
        wanted = self.plan.call("task_configs", max_tasks)
        return [{"a": "1", "secret": "resolved"}] if wanted is None else wanted


class SourceTask(Planned, task.SourceTask):
    def initialize(self, given):
        self.plan.call("initialize")
        super().initialize(given)

    def start(self, props):
        self.plan.call("start", self, props)

    def poll(self):
        got = self.plan.call("poll", self)
        self.context.wait(0.01)
        return got

    def stop(self):
        self.plan.call("stop")

    def commit(self):
        self.plan.call("commit")

    def commit_record(self, record, metadata):
        self.plan.call("commit_record", record)


class SinkTask(Planned, task.SinkTask):
    def pre_commit(self, offsets):
        wanted = self.plan.call("pre_commit", offsets)
        return offsets if wanted is None else wanted

    def open(self, partitions):
        self.plan.call("open", self, partitions)

    def close(self, partitions):
        self.plan.call("close", partitions)

    def start(self, props):
        self.plan.call("start", self, props)

    def put(self, sink_records):
        self.plan.call("put", sink_records)
        self.context.wait(0.01)

    def stop(self):
        self.plan.call("stop")


class Pipeline(Planned, PipelineTask):
    def start(self, props):
        self.plan.call("start", self, props)

    def run_once(self, timeout_s):
        self.plan.call("run_once", self.context)
        self.context.wait(0.01)

    def reconfigure(self, props):
        return self.plan.call("reconfigure", props)

    def pause(self):
        self.plan.call("pause")

    def resume(self):
        self.plan.call("resume")

    def stop(self):
        self.plan.call("stop")

    def abandon(self):
        self.plan.call("abandon")


class Source(AnyConnector, SourceConnector):
    def task_class(self):
        return self.plan.call("task_class") or SourceTask


class Pipes(Source):
    def task_class(self):
        return Pipeline


class Sink(AnyConnector, SinkConnector):
    def task_class(self):
        return SinkTask


PLUGINS = {"Source": Source, "Sink": Sink, "Pipes": Pipes}


class World:
    def __init__(self, graceful_ms="10000"):
        self.clients = Clients()
        self.statuses = Statuses()
        self.reached = []
        self.wanted = []
        self.view = cluster_config_state.EMPTY_CONFIG_STATE
        self.membership = Membership()
        self.refuses = False
        self.given: dict[int, Sequence[PublishedTaskConfig]] = {}
        self.quiet = None
        self.metrics = WorkerMetrics("here:1", SystemClock())
        self.offsets = LogOffsetBackingStore(MemoryLog("offsets"))
        self.offsets.start(1.0)
        config = worker_config.parse_standalone_config(
            {
                "bootstrap.servers": "a:1",
                "key.converter": "String",
                "value.converter": "String",
                "header.converter": "Simple",
                "offset.storage.file.filename": "f",
                "offset.flush.interval.ms": "20",
                "task.shutdown.graceful.timeout.ms": graceful_ms,
            }
        )
        around = WorkerDeps(
            config=config,
            worker_id="here:1",
            generation=lambda: 3,
            configs=lambda: self.view,
            installed=Plugins(PLUGINS),
            clients=self.clients,
            statuses=self.statuses,
            offsets=self.offsets,
            resolve=self.resolve,
            membership=self.membership,
            metrics=self.metrics,
            published_task_configs=lambda name: self.given if name == "c" else {},
            leaderless_period=lambda: self.quiet,
            clock=SystemClock(),
        )
        self.worker = Worker(around, self)

    def resolve(self, raw):
        if self.refuses:
            raise ConfigError("no such file")
        return {name: "resolved" if value == "${p:k}" else value for name, value in raw.items()}

    def on_target_state_reached(self, name, state, error):
        self.reached.append((name, state.value, error))

    def on_reconfiguration_requested(self, name):
        self.wanted.append(name)

    def start_task(self, config=None, state=TargetState.STARTED, tasks=1):
        config = CONFIG if config is None else config
        self.worker.start_task(TASK, connector=config, config=config, state=state, tasks=tasks)

    def wait_for(self, subject, state):
        eventually(
            lambda: self.statuses.states(subject)[-1:] == [state],
            WAIT_S,
            lambda: str(self.statuses.last(subject)),
        )

    def stored(self):
        return self.offsets.read_offsets("c", [{"f": "a"}], 1.0)[0]
