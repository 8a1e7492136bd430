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

from connect_runtime.api.config_infos import ConfigInfo, ConfigInfos, ConfigKeyInfo, ConfigValueInfo
from connect_runtime.api.errors import NotFoundError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks, WorkItem
from connect_runtime.group.leader_assignment import AssignmentOwners
from connect_runtime.herder import (
    herder_request_routing,
    herder_requests,
    restart_plan,
    session_keys,
)
from connect_runtime.herder.herder_interface import (
    ConnectorOffset,
    ConnectorOffsets,
    ConnectorOffsetsModified,
    ConnectorType,
    ConnectRestError,
    HerderStage,
    PluginInfo,
    PluginType,
    WorkerReply,
)
from connect_runtime.herder.herder_request_routing import HandleRequestLocally, RoutingState
from connect_runtime.herder.herder_requests import (
    ConnectorDescription,
    DeleteConnector,
    DescribeConnector,
    HerderRequest,
    ModifyConnectorOffsets,
    PatchConnector,
    PutConnector,
    PutConnectorResult,
    PutTaskConfigs,
    ReadConnectorOffsets,
    RequestRefused,
    RequestSucceeded,
    RestartAccepted,
    RestartConnectorAndTasks,
    StopConnector,
)
from connect_runtime.herder.session_keys import SessionKeySettings, SignatureCheck, SignatureValid
from connect_runtime.storage import config_records, status_records
from connect_runtime.storage.cluster_config_state import (
    ClusterConfigState,
    RawConfig,
    SessionKey,
    TargetState,
)
from connect_runtime.storage.config_records import KeyedRecord
from connect_runtime.storage.config_topic import ConfigTopicState
from connect_runtime.storage.status_records import (
    RunState,
    RunStatus,
    StatusSubject,
    TopicStatusKey,
)
from connect_runtime.storage.status_topic import StatusSnapshot, StatusTopicState

T = TypeVar("T")

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
WORKER = "127.0.0.1:8083"
ACCEPTED = RequestSucceeded()

_TYPES = {
    SOURCE: ConnectorType.SOURCE,
    "FileStreamSourceConnector": ConnectorType.SOURCE,
    "FileStreamSource": ConnectorType.SOURCE,
    SINK: ConnectorType.SINK,
    "FileStreamSink": ConnectorType.SINK,
}
_STATES = {
    None: RunState.RUNNING,
    TargetState.STARTED: RunState.RUNNING,
    TargetState.PAUSED: RunState.PAUSED,
    TargetState.STOPPED: RunState.STOPPED,
}

TOPIC_KEY = ConfigKeyInfo(
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
    elsewhere: dict[WorkItem, str] = field(default_factory=dict)
    rebalance_pending: bool = False
    silent: bool = False
    fails: Exception | None = None
    reports_ready: bool = True
    doing: HerderStage | None = None
    key: SessionKey | None = None
    signed: bool = False
    signs_whole: bool = False
    submitted: list[HerderRequest] = field(default_factory=list)
    pending: list[futures.Future[WorkerReply]] = field(default_factory=list)
    offsets: dict[str, list[ConnectorOffset]] = field(default_factory=dict)
    cluster_levels: dict[str, str] = field(default_factory=dict)
    installed: tuple[PluginInfo, ...] = (
        PluginInfo(
            class_name="org.apache.kafka.connect.json.JsonConverter",
            type=PluginType.CONVERTER,
        ),
        PluginInfo(class_name=SOURCE, type=PluginType.SOURCE, version="4.3.1"),
        PluginInfo(class_name=SINK, type=PluginType.SINK, version="4.3.1"),
    )
    _configs: ConfigTopicState = field(default_factory=ConfigTopicState)
    _statuses: StatusTopicState = field(default_factory=StatusTopicState)
    _offset: Any = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self._configs.finish_replay()

    def ignore_connectors_except(self, allowed: Iterable[str]) -> None:
        self._configs.allowed_connectors = frozenset(allowed)

    # Known at once

    def is_ready(self) -> bool:
        return self.reports_ready

    def get_current_stage(self) -> HerderStage | None:
        return self.doing

    def kafka_cluster_id(self) -> str | None:
        return "I4ZmrWqfT2e-upky_4fdPA"

    def get_config_state(self) -> ClusterConfigState:
        return dataclasses.replace(self._configs.snapshot(), session_key=self.key)

    def get_statuses(self) -> StatusSnapshot:
        return self._statuses.snapshot()

    def plugins(self) -> Sequence[PluginInfo]:
        return self.installed

    def connector_type(self, config: RawConfig | None) -> ConnectorType:
        name = (config or {}).get("connector.class")
        return _TYPES.get(name or "", ConnectorType.UNKNOWN)

    def signs_internal_requests(self) -> bool:
        return self.signed

    def signs_whole_requests(self) -> bool:
        return self.signs_whole

    def verify_request_signature(
        self, body: bytes, headers: Mapping[str, str], *, must_be_signed: bool = False
    ) -> SignatureCheck:
        if not self.signed and not must_be_signed:
            return SignatureValid()
        settings = SessionKeySettings()
        return session_keys.verify_signature(body, headers, key=self.key, settings=settings)

    # With futures

    def submit_request(self, request: HerderRequest) -> futures.Future[WorkerReply]:
        self.submitted.append(request)
        if self.silent:
            self.pending.append(futures.Future())
            return self.pending[-1]
        future: futures.Future[WorkerReply] = futures.Future()
        if self.fails is not None:
            future.set_exception(self.fails)
        else:
            future.set_result(self._serve(request))
        return future

    def set_target_state(self, connector: str, state: TargetState) -> futures.Future[None]:
        self.write([config_records.encode_target_state(connector, state)])
        self.run(connector)
        return self._done(None)

    def reset_connector_active_topics(self, connector: str) -> futures.Future[None]:
        for each in self.get_statuses().topics(connector):
            self.write_status(
                status_records.encode_topic_removal(TopicStatusKey(each.topic, connector))
            )
        return self._done(None)

    def set_cluster_logger_level(self, namespace: str, level: str) -> futures.Future[None]:
        self.cluster_levels[namespace] = level
        return self._done(None)

    def validate_connector_config(self, config: RawConfig) -> futures.Future[ConfigInfos]:
        if config.get("connector.class") is None:
            future: futures.Future[ConfigInfos] = futures.Future()
            future.set_exception(
                ConnectRestError(400, "Connector config contains no connector type")
            )
            return future
        topic = config.get("topic")
        missing = 'Missing required configuration "topic" which has no default value.'
        value = ConfigValueInfo(
            name="topic",
            value=topic,
            recommended_values=(),
            errors=() if topic else (missing,),
            visible=True,
        )
        infos = ConfigInfos(
            name=str(config["connector.class"]),
            error_count=len(value.errors),
            groups=("Common",),
            configs=(ConfigInfo(definition=TOPIC_KEY, value=value),),
        )
        return self._done(infos)

    def connector_plugin_config(
        self, plugin: str, version: str | None
    ) -> futures.Future[Sequence[ConfigKeyInfo]]:
        future: futures.Future[Sequence[ConfigKeyInfo]] = futures.Future()
        if plugin not in _TYPES:
            future.set_exception(NotFoundError(f"Unknown plugin {plugin}."))
        elif version not in (None, "4.3.1"):
            future.set_exception(ConnectRestError(400, f"no version {version}"))
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

    def write(self, records: Iterable[KeyedRecord]) -> None:
        for each in records:
            self._configs.apply_record(each.key, each.value, offset=next(self._offset))

    def write_status(self, record: KeyedRecord) -> None:
        self._statuses.apply_record(record.key, record.value, offset=0)

    def say(self, subject: StatusSubject, state: RunState, **told: Any) -> None:
        status = RunStatus(
            state=state, worker_id=WORKER, generation=1, **({"version": "4.3.1"} | told)
        )
        self.write_status(status_records.encode_status(subject, status))

    def make(
        self,
        name: str,
        config: Mapping[str, str] | None = None,
        *,
        state: TargetState | None = None,
    ) -> None:
        """A connector that runs."""
        written = {"connector.class": "FileStreamSource", "topic": "t", "name": name}
        written |= config or {}
        self.write(config_records.encode_connector_creation(name, written, state))
        self.run(name)

    def run(self, name: str) -> None:
        """Its tasks and statuses, as its configuration and target state want them."""
        view = self.get_config_state()
        config = dict(view.config(name) or {})
        state = view.target_state(name)
        stopped = state is TargetState.STOPPED
        count = 0 if stopped else int(config.get("tasks.max") or 1)
        self.write(config_records.encode_task_configs(name, [config | {"task": "x"}] * count))
        self.write([config_records.encode_task_config_commit(name, count)])
        for task in self.get_statuses().tasks(name):
            self.say(task, RunState.DESTROYED)
        self.say(name, _STATES[state])
        for number in range(count):
            self.say(ConnectorTaskId(name, number), _STATES[state])

    def _standing(self) -> RoutingState:
        view = self.get_config_state()
        items: list[WorkItem] = []
        for name in view.connectors():
            items += [name, *view.tasks(name)]
        here = [each for each in items if each not in self.elsewhere]
        owners = AssignmentOwners(
            urls=dict.fromkeys(self.elsewhere.values(), "")
            | {url: url for url in self.elsewhere.values()},
            members=dict(self.elsewhere),
        )
        return RoutingState(
            config=view,
            is_leader=self.leads,
            leader_url=self.leader_url,
            assigned=ConnectorsAndTasks.from_items(here),
            owners=owners if self.leads else None,
            rebalance_pending=self.rebalance_pending,
        )

    def _serve(self, request: HerderRequest) -> WorkerReply:
        if isinstance(request, PutConnector):
            refusal = self._invalid(request.config)
            if refusal is not None:
                return refusal
        verdict = herder_request_routing.route_request(request, self._standing())
        if not isinstance(verdict, HandleRequestLocally):
            return verdict
        return self._carry_out(request)

    def _invalid(self, config: RawConfig) -> RequestRefused | None:
        future = self.validate_connector_config(config)
        if (error := future.exception()) is not None:
            assert isinstance(error, ConnectRestError)
            return RequestRefused(error.status, str(error))
        refusal = herder_requests.describe_config_errors(future.result())
        return None if refusal is None else RequestRefused(400, refusal)

    def _carry_out(self, request: HerderRequest) -> WorkerReply:
        match request:
            case DescribeConnector(name):
                view = self.get_config_state()
                return ConnectorDescription(
                    connector=name,
                    config=view.config(name) or {},
                    task_configs=tuple(view.task_config(each) for each in view.tasks(name)),
                )
            case PutConnector(connector=name, config=config, target_state=state):
                return self._put(name, config, state)
            case PatchConnector(connector=name, patch=patch):
                merged = dict(self.get_config_state().config(name) or {}) | dict(patch)
                config = {
                    key: value for key, value in merged.items() if patch.get(key, "") is not None
                }
                return self._invalid(config) or self._put(name, config, None)
            case DeleteConnector(name):
                self.write(config_records.encode_connector_deletion(name))
                self.write_status(KeyedRecord(key=f"status-connector-{name}".encode(), value=None))
            case StopConnector(name):
                self.set_target_state(name, TargetState.STOPPED)
            case PutTaskConfigs(connector=name, configs=configs):
                self.write(config_records.encode_task_configs(name, configs))
                self.write([config_records.encode_task_config_commit(name, len(configs))])
            case RestartConnectorAndTasks(wanted):
                plan = restart_plan.plan_restart(wanted, self.get_statuses())
                assert plan is not None
                return RestartAccepted(plan)
            case ReadConnectorOffsets(name):
                return ConnectorOffsets(tuple(self.offsets.get(name, ())))
            case ModifyConnectorOffsets():
                return self._modify(request)
        return RequestSucceeded()

    def _put(
        self,
        name: str,
        config: RawConfig,
        state: TargetState | None,
    ) -> PutConnectorResult:
        created = not self.get_config_state().has_connector(name)
        tasks = tuple(self.get_config_state().tasks(name))
        self.write(config_records.encode_connector_creation(name, config, state))
        self.run(name)
        return PutConnectorResult(connector=name, config=config, tasks=tasks, created=created)

    def _modify(self, request: ModifyConnectorOffsets) -> WorkerReply:
        verdict = herder_request_routing.check_offsets_modifiable(
            request.connector, self.get_config_state()
        )
        if not isinstance(verdict, HandleRequestLocally):
            return verdict
        what = "reset" if request.offsets is None else "altered"
        self.offsets[request.connector] = [
            ConnectorOffset(partition=partition, offset=offset)
            for partition, offset in request.offsets or ()
            if offset is not None
        ]
        return ConnectorOffsetsModified(
            f"The offsets for this connector have been {what} successfully"
        )
