"""A herder for the REST API to ask: real folds and real admission, and connectors in name only.

What it is asked it does at once, on the asker's thread. A connector runs as soon as it is
configured, with `tasks.max` tasks; nothing else happens anywhere.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connect_runtime.api import config_infos, errors
from connect_runtime.base import ids
from connect_runtime.core.assignment import leader, work
from connect_runtime.core.herder import admission, requests, restart_plan, session_keys, validation
from connect_runtime.core.state import (
    cluster_config,
    config_log,
    config_records,
    status_log,
    status_records,
)
from connect_runtime.ports import herder

T = TypeVar("T")

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
WORKER = "127.0.0.1:8083"
ACCEPTED = requests.Accepted()

_TYPES = {
    SOURCE: herder.ConnectorType.SOURCE,
    "FileStreamSourceConnector": herder.ConnectorType.SOURCE,
    "FileStreamSource": herder.ConnectorType.SOURCE,
    SINK: herder.ConnectorType.SINK,
    "FileStreamSink": herder.ConnectorType.SINK,
}
_STATES = {
    None: status_records.State.RUNNING,
    cluster_config.TargetState.STARTED: status_records.State.RUNNING,
    cluster_config.TargetState.PAUSED: status_records.State.PAUSED,
    cluster_config.TargetState.STOPPED: status_records.State.STOPPED,
}

TOPIC_KEY = config_infos.ConfigKeyInfo(
    name="topic",
    type="STRING",
    required=True,
    default_value=None,
    importance="HIGH",
    documentation="The topic to publish data to",
    group=None,
    order_in_group=-1,
    width="NONE",
    display_name="topic",
    dependents=(),
)


@dataclass
class FakeHerder:
    """Implements `ports.herder.Herder`.

    `silent`: nothing that is submitted is answered, unless a test does it with `pending`.
    `fails`: every future fails with this. `elsewhere`: connectors and tasks that
    another worker runs, with its URL.
    """

    leads: bool = True
    leader_url: str | None = None
    elsewhere: dict[work.Item, str] = field(default_factory=dict)
    rebalance_pending: bool = False
    silent: bool = False
    fails: Exception | None = None
    is_ready: bool = True
    doing: herder.Stage | None = None
    key: cluster_config.SessionKey | None = None
    signed: bool = False
    submitted: list[requests.Request] = field(default_factory=list)
    pending: list[futures.Future[herder.Reply]] = field(default_factory=list)
    offsets: dict[str, list[herder.PartitionOffset]] = field(default_factory=dict)
    cluster_levels: dict[str, str] = field(default_factory=dict)
    installed: tuple[herder.PluginInfo, ...] = (
        herder.PluginInfo(
            class_name="org.apache.kafka.connect.json.JsonConverter",
            type=herder.PluginType.CONVERTER,
        ),
        herder.PluginInfo(class_name=SOURCE, type=herder.PluginType.SOURCE, version="4.3.1"),
        herder.PluginInfo(class_name=SINK, type=herder.PluginType.SINK, version="4.3.1"),
    )
    _configs: config_log.ConfigLog = field(default_factory=config_log.ConfigLog)
    _statuses: status_log.StatusLog = field(default_factory=status_log.StatusLog)
    _offset: Any = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self._configs.finish_replay()

    # Known at once

    def ready(self) -> bool:
        return self.is_ready

    def stage(self) -> herder.Stage | None:
        return self.doing

    def kafka_cluster_id(self) -> str | None:
        return "I4ZmrWqfT2e-upky_4fdPA"

    def config(self) -> cluster_config.ClusterConfig:
        return dataclasses.replace(self._configs.snapshot(), session_key=self.key)

    def statuses(self) -> status_log.Statuses:
        return self._statuses.snapshot()

    def plugins(self) -> Sequence[herder.PluginInfo]:
        return self.installed

    def connector_type(self, config: cluster_config.RawConfig | None) -> herder.ConnectorType:
        name = (config or {}).get("connector.class")
        return _TYPES.get(name or "", herder.ConnectorType.UNKNOWN)

    def signs_internal_requests(self) -> bool:
        return self.signed

    def verify(
        self, body: bytes, headers: Mapping[str, str], *, must_be_signed: bool = False
    ) -> session_keys.Verdict:
        if not self.signed and not must_be_signed:
            return session_keys.Genuine()
        settings = session_keys.KeySettings()
        return session_keys.verify(body, headers, key=self.key, settings=settings)

    # With futures

    def submit(self, request: requests.Request) -> futures.Future[herder.Reply]:
        self.submitted.append(request)
        if self.silent:
            self.pending.append(futures.Future())
            return self.pending[-1]
        future: futures.Future[herder.Reply] = futures.Future()
        if self.fails is not None:
            future.set_exception(self.fails)
        else:
            future.set_result(self._serve(request))
        return future

    def set_target_state(
        self, connector: str, state: cluster_config.TargetState
    ) -> futures.Future[None]:
        self.write([config_records.target_state(connector, state)])
        self.run(connector)
        return self._done(None)

    def reset_topics(self, connector: str) -> futures.Future[None]:
        for each in self.statuses().topics(connector):
            self.write_status(
                status_records.topic_removal(status_records.TopicKey(each.topic, connector))
            )
        return self._done(None)

    def set_cluster_logger_level(self, namespace: str, level: str) -> futures.Future[None]:
        self.cluster_levels[namespace] = level
        return self._done(None)

    def validate(
        self, config: cluster_config.RawConfig
    ) -> futures.Future[config_infos.ConfigInfos]:
        if config.get("connector.class") is None:
            future: futures.Future[config_infos.ConfigInfos] = futures.Future()
            future.set_exception(herder.Refusal(400, "Connector config contains no connector type"))
            return future
        topic = config.get("topic")
        missing = 'Missing required configuration "topic" which has no default value.'
        value = config_infos.ConfigValueInfo(
            name="topic",
            value=topic,
            recommended_values=(),
            errors=() if topic else (missing,),
            visible=True,
        )
        infos = config_infos.ConfigInfos(
            name=str(config["connector.class"]),
            error_count=len(value.errors),
            groups=("Common",),
            configs=(config_infos.ConfigInfo(definition=TOPIC_KEY, value=value),),
        )
        return self._done(infos)

    def plugin_config(
        self, plugin: str, version: str | None
    ) -> futures.Future[Sequence[config_infos.ConfigKeyInfo]]:
        future: futures.Future[Sequence[config_infos.ConfigKeyInfo]] = futures.Future()
        if plugin not in _TYPES:
            future.set_exception(errors.NotFoundError(f"Unknown plugin {plugin}."))
        elif version not in (None, "4.3.1"):
            future.set_exception(herder.Refusal(400, f"no version {version}"))
        else:
            future.set_result([TOPIC_KEY])
        return future

    def _done(self, result: T) -> futures.Future[T]:
        future: futures.Future[T] = futures.Future()
        if self.fails is not None:
            future.set_exception(self.fails)
        else:
            future.set_result(result)
        return future

    # What tests, and what is asked, make of it

    def write(self, records: Iterable[config_records.Record]) -> None:
        for each in records:
            self._configs.apply(each.key, each.value, offset=next(self._offset))

    def write_status(self, record: status_records.Record) -> None:
        self._statuses.apply(record.key, record.value, offset=0)

    def say(
        self, subject: status_records.Subject, state: status_records.State, **told: Any
    ) -> None:
        status = status_records.Status(
            state=state, worker_id=WORKER, generation=1, **({"version": "4.3.1"} | told)
        )
        self.write_status(status_records.status(subject, status))

    def make(
        self,
        name: str,
        config: Mapping[str, str] | None = None,
        *,
        state: cluster_config.TargetState | None = None,
    ) -> None:
        """A connector that runs."""
        written = {"connector.class": "FileStreamSource", "topic": "t", "name": name}
        written |= config or {}
        self.write(config_records.creation(name, written, state))
        self.run(name)

    def run(self, name: str) -> None:
        """Its tasks and statuses, as its configuration and target state want them."""
        view = self.config()
        config = dict(view.config(name) or {})
        state = view.target_state(name)
        stopped = state is cluster_config.TargetState.STOPPED
        count = 0 if stopped else int(config.get("tasks.max") or 1)
        self.write(config_records.task_configs(name, [config | {"task": "x"}] * count))
        self.write([config_records.commit(name, count)])
        for task in self.statuses().tasks(name):
            self.say(task, status_records.State.DESTROYED)
        self.say(name, _STATES[state])
        for number in range(count):
            self.say(ids.ConnectorTaskId(name, number), _STATES[state])

    def _standing(self) -> admission.Standing:
        view = self.config()
        items: list[work.Item] = []
        for name in view.connectors():
            items += [name, *view.tasks(name)]
        here = [each for each in items if each not in self.elsewhere]
        owners = leader.Owners(
            urls=dict.fromkeys(self.elsewhere.values(), "")
            | {url: url for url in self.elsewhere.values()},
            members=dict(self.elsewhere),
        )
        return admission.Standing(
            config=view,
            leads=self.leads,
            leader_url=self.leader_url,
            assigned=work.Work.of(here),
            owners=owners if self.leads else None,
            rebalance_pending=self.rebalance_pending,
        )

    def _serve(self, request: requests.Request) -> herder.Reply:
        if isinstance(request, requests.PutConnector):
            refusal = self._invalid(request.config)
            if refusal is not None:
                return refusal
        verdict = admission.judge(request, self._standing())
        if not isinstance(verdict, admission.Proceed):
            return verdict
        return self._carry_out(request)

    def _invalid(self, config: cluster_config.RawConfig) -> requests.Refused | None:
        future = self.validate(config)
        if (error := future.exception()) is not None:
            assert isinstance(error, herder.Refusal)
            return requests.Refused(error.status, str(error))
        refusal = validation.refusal(future.result())
        return None if refusal is None else requests.Refused(400, refusal)

    def _carry_out(self, request: requests.Request) -> herder.Reply:
        match request:
            case requests.Describe(name):
                view = self.config()
                return requests.Description(
                    connector=name,
                    config=view.config(name) or {},
                    task_configs=tuple(view.task_config(each) for each in view.tasks(name)),
                )
            case requests.PutConnector(connector=name, config=config, target_state=state):
                return self._put(name, config, state)
            case requests.PatchConnector(connector=name, patch=patch):
                merged = dict(self.config().config(name) or {}) | dict(patch)
                config = {
                    key: value for key, value in merged.items() if patch.get(key, "") is not None
                }
                return self._invalid(config) or self._put(name, config, None)
            case requests.DeleteConnector(name):
                self.write(config_records.removal(name))
                self.write_status(
                    config_records.Record(key=f"status-connector-{name}".encode(), value=None)
                )
            case requests.StopConnector(name):
                self.set_target_state(name, cluster_config.TargetState.STOPPED)
            case requests.PutTaskConfigs(connector=name, configs=configs):
                self.write(config_records.task_configs(name, configs))
                self.write([config_records.commit(name, len(configs))])
            case requests.RestartAll(wanted):
                plan = restart_plan.plan(wanted, self.statuses())
                assert plan is not None
                return requests.Restarting(plan)
            case requests.ReadOffsets(name):
                return herder.Offsets(tuple(self.offsets.get(name, ())))
            case requests.ModifyOffsets():
                return self._modify(request)
        return requests.Accepted()

    def _put(
        self,
        name: str,
        config: cluster_config.RawConfig,
        state: cluster_config.TargetState | None,
    ) -> requests.Put:
        created = not self.config().contains(name)
        tasks = tuple(self.config().tasks(name))
        self.write(config_records.creation(name, config, state))
        self.run(name)
        return requests.Put(connector=name, config=config, tasks=tasks, created=created)

    def _modify(self, request: requests.ModifyOffsets) -> herder.Reply:
        verdict = admission.may_modify_offsets(request.connector, self.config())
        if not isinstance(verdict, admission.Proceed):
            return verdict
        what = "reset" if request.offsets is None else "altered"
        self.offsets[request.connector] = [
            herder.PartitionOffset(partition=partition, offset=offset)
            for partition, offset in request.offsets or ()
            if offset is not None
        ]
        return herder.OffsetsModified(
            f"The offsets for this connector have been {what} successfully"
        )
