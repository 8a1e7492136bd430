"""Plugins that do what a test plans, and a worker of this process that runs them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import ClassVar

from connect_runtime.api import config_def, connector, context, errors, task
from connect_runtime.base import ids
from connect_runtime.core.state import cluster_config
from connect_runtime.core.task import worker_config
from connect_runtime.runtime import task_bodies, worker, worker_metrics
from connect_runtime.runtime.stores import memory_log, offset_store
from connect_runtime.system import clock
from tests.fakes import task_clients
from tests.support.eventually import eventually

TASK = ids.ConnectorTaskId("c", 0)
WAIT_S = 30.0
TargetState = cluster_config.TargetState
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
        return config_def.ConfigDef()

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


class Pipeline(Planned, task.PipelineTask):
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


class Source(AnyConnector, connector.SourceConnector):
    def task_class(self):
        return self.plan.call("task_class") or SourceTask


class Pipes(Source):
    def task_class(self):
        return Pipeline


class Sink(AnyConnector, connector.SinkConnector):
    def task_class(self):
        return SinkTask


PLUGINS = {"Source": Source, "Sink": Sink, "Pipes": Pipes}


class World:
    def __init__(self, graceful_ms="10000"):
        self.clients = task_clients.Clients()
        self.statuses = task_clients.Statuses()
        self.reached = []
        self.wanted = []
        self.view = cluster_config.EMPTY
        self.membership = task_clients.Membership()
        self.refuses = False
        self.given: dict[int, Sequence[context.TaskGiven]] = {}
        self.quiet = None
        self.metrics = worker_metrics.WorkerMetrics("here:1", clock.SystemClock())
        self.offsets = offset_store.OffsetStore(memory_log.MemoryLog("offsets"))
        self.offsets.start(1.0)
        config = worker_config.standalone(
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
        around = task_bodies.Surroundings(
            config=config,
            worker_id="here:1",
            generation=lambda: 3,
            configs=lambda: self.view,
            installed=task_clients.Plugins(PLUGINS),
            clients=self.clients,
            statuses=self.statuses,
            offsets=self.offsets,
            resolve=self.resolve,
            membership=self.membership,
            metrics=self.metrics,
            given=lambda name: self.given if name == "c" else {},
            quiet=lambda: self.quiet,
            clock=clock.SystemClock(),
        )
        self.worker = worker.Worker(around, self)

    def resolve(self, raw):
        if self.refuses:
            raise errors.ConfigError("no such file")
        return {name: "resolved" if value == "${p:k}" else value for name, value in raw.items()}

    def on_reached(self, name, state, error):
        self.reached.append((name, state.value, error))

    def on_reconfiguration_wanted(self, name):
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
        return self.offsets.read("c", [{"f": "a"}], 1.0)[0]
