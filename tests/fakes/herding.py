"""Whole herders in one process: real loops over fake topics, a fake group and fake workers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.api.config_infos import ConfigInfos, ConfigKeyInfo
from connect_runtime.api.errors import NotFoundError
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.herder.background_actions import (
    BackgroundActionDeps,
    BackgroundActionRunner,
    PendingReplies,
)
from connect_runtime.herder.blocking_actions import BlockingActionDeps, BlockingActionRunner
from connect_runtime.herder.herder_events import ConfigRecordRead, ConnectorStateReached
from connect_runtime.herder.herder_interface import (
    ConnectorOffsets,
    ConnectorOffsetsModified,
    ConnectorType,
    PluginInfo,
    WorkerReply,
)
from connect_runtime.herder.herder_loop import (
    HerderInbox,
    HerderLoop,
    HerderLoopDeps,
    WorkerGroupState,
)
from connect_runtime.herder.herder_requests import (
    HerderRequest,
    PutConnector,
    PutTaskConfigs,
    RequestedOffsets,
    RequestSucceeded,
)
from connect_runtime.herder.herder_state import HerderSettings
from connect_runtime.herder.requests_to_other_workers import (
    PeerRefusedError,
    PeerRequest,
    PeerResponse,
    PeerUnavailableError,
)
from connect_runtime.herder.session_keys import SessionKeySettings, SignatureInvalid
from connect_runtime.herder.standalone_group import StandaloneGroup
from connect_runtime.herder.worker_group_interface import WorkerGroup
from connect_runtime.herder.worker_herder import WorkerHerder, WorkerHerderDependencies
from connect_runtime.storage.cluster_config_state import RawConfig, TargetState
from connect_runtime.storage.config_store import ConfigBackingStore
from connect_runtime.storage.config_topic import ConfigChange
from connect_runtime.storage.status_store import StatusBackingStore
from connect_runtime.system.log_levels import LogLevels
from connect_runtime.system.supervised_threads import ThreadPool
from connect_runtime.system.system_clock import SystemClock
from tests.fakes.group import FakeCoordinator, FakeGroup
from tests.fakes.shared_log import FakeSharedLog, FakeTopic
from tests.fakes.worker_port import FakeWorker

CLOCK = SystemClock()
WAIT_S = 30.0
NO_ERRORS = ConfigInfos(name="", error_count=0, groups=(), configs=())


class FakeValidation:
    """`finds` is what every validation answers, or raises."""

    def __init__(self) -> None:
        self.finds: ConfigInfos | Exception = NO_ERRORS

    def plugins(self) -> Sequence[PluginInfo]:
        return ()

    def connector_type(self, config: RawConfig | None) -> ConnectorType:
        return ConnectorType.UNKNOWN

    def validate_connector_config(self, config: RawConfig) -> ConfigInfos:
        if isinstance(self.finds, Exception):
            raise self.finds
        return self.finds

    def connector_plugin_config(self, plugin: str, version: str | None) -> Sequence[ConfigKeyInfo]:
        raise NotFoundError(f"there is no plugin {plugin}")


class FakeOffsets:
    def read_offsets(self, connector: str, config: RawConfig) -> ConnectorOffsets:
        return ConnectorOffsets(())

    def modify_offsets(
        self,
        connector: str,
        config: RawConfig,
        offsets: RequestedOffsets | None,
    ) -> ConnectorOffsetsModified:
        return ConnectorOffsetsModified("done")


@dataclass
class Cluster:
    """Workers that share topics and a group. `forwarded` are calls from worker to worker; while
    there are `refusals`, each is answered by the next of them."""

    coordinator: FakeCoordinator = field(default_factory=FakeCoordinator)
    configs: FakeTopic = field(default_factory=FakeTopic)
    statuses: FakeTopic = field(default_factory=FakeTopic)
    nodes: dict[str, Node] = field(default_factory=dict)
    forwarded: list[PeerRequest] = field(default_factory=list)
    refusals: list[Exception] = field(default_factory=list)

    def node(
        self,
        name: str,
        *,
        offers: ConnectProtocol = ConnectProtocol.SESSIONED,
        allowed_connectors: frozenset[str] | None = None,
    ) -> Node:
        made = Node(
            self,
            name,
            group=self.coordinator.member(name, offers=offers),
            offers=offers,
            allowed_connectors=allowed_connectors,
        )
        self.nodes[f"http://{name}/"] = made
        return made

    def alone(self) -> Node:
        return Node(self, "alone", group=None, offers=ConnectProtocol.COMPATIBLE)

    def stop(self) -> None:
        for each in self.nodes.values():
            each.stop()

    async def send(self, call: PeerRequest) -> PeerResponse:
        raise NotImplementedError

    def send_and_wait(self, call: PeerRequest) -> PeerResponse:
        """As a worker's REST API would: verified, then submitted."""
        self.forwarded.append(call)
        if self.refusals:
            raise self.refusals.pop(0)
        at, body = self.nodes[call.url].herder, call.body or b""
        verdict = at.verify_request_signature(body, call.signature)
        if isinstance(verdict, SignatureInvalid):
            raise PeerRefusedError(
                verdict.message, status=verdict.status, error_code=verdict.status
            )
        request = PutTaskConfigs(connector=call.path.split("/")[2], configs=json.loads(body))
        reply = at.submit_request(request).result(WAIT_S)
        if not isinstance(reply, RequestSucceeded):
            raise PeerUnavailableError(str(reply))
        return PeerResponse(status=204)


class Node:
    """One worker's herder, with all that it drives."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        *,
        group: FakeGroup | None,
        offers: ConnectProtocol,
        allowed_connectors: frozenset[str] | None = None,
    ) -> None:
        self.is_standalone = group is None
        self.worker = FakeWorker()
        self.validation = FakeValidation()
        self.ended = threading.Event()
        self.inbox = HerderInbox()
        self.asked = PendingReplies()
        self.calls = ThreadPool(name, threads_max=4, waiting_max=8)
        self.levels = LogLevels(clock=CLOCK)
        self.standing = WorkerGroupState(protocol=offers)
        self.led: list[int] = []
        self.on_leading: Callable[[], None] = lambda: self.led.append(self.standing.generation)
        self.configs = ConfigBackingStore(
            FakeSharedLog(cluster.configs),
            clock=CLOCK,
            on_change=self._changed,
            allowed_connectors=allowed_connectors,
        )
        self.statuses = StatusBackingStore(FakeSharedLog(cluster.statuses), clock=CLOCK)
        self.worker.on_reached = self._reached
        self.group: WorkerGroup = group or StandaloneGroup(
            f"http://{name}/", self.configs.snapshot, clock=CLOCK
        )
        self.orders = self._orders(cluster, name)
        self.questions = BlockingActionRunner(
            BlockingActionDeps(
                configs=self.configs,
                statuses=self.statuses,
                worker=self.worker,
                thread_pool=self.calls,
                session_key_settings=SessionKeySettings(),
                resolve=lambda config: self.resolve(config),
            )
        )
        self.loop = self._loop()
        self.herder = self._herder()
        self.resolve: Callable[[Mapping[str, str | None]], object] = dict

    def _changed(self, change: ConfigChange) -> None:
        self.inbox.post_event(ConfigRecordRead(change))

    def _reached(self, connector: str, state: TargetState, error: str | None) -> None:
        self.inbox.post_event(ConnectorStateReached(connector=connector, state=state, error=error))

    def _orders(self, cluster: Cluster, name: str) -> BackgroundActionRunner:
        return BackgroundActionRunner(
            BackgroundActionDeps(
                configs=self.configs,
                statuses=self.statuses,
                worker=self.worker,
                offsets=FakeOffsets(),
                peer_client=cluster,
                signature_algorithm="HmacSHA256",
                validate=lambda config: self.validation.validate_connector_config(config),
                thread_pool=self.calls,
                plugin_thread_pool=self.calls,
                log_levels=self.levels,
                worker_id=name,
                generation=lambda: self.standing.generation,
                on_leadership_acquired=lambda: self.on_leading(),
            ),
            pending_replies=self.asked,
            post=self.inbox.post_event,
        )

    def _loop(self) -> HerderLoop:
        return HerderLoop(
            HerderLoopDeps(
                settings=HerderSettings(rebalance_delay_max_s=0.0),
                configs=self.configs,
                statuses=self.statuses,
                group=self.group,
                blocking_actions=self.questions,
                background_actions=self.orders,
                inbox=self.inbox,
                group_state=self.standing,
                on_end=self.ended.set,
                clock=CLOCK,
            )
        )

    def _herder(self) -> WorkerHerder:
        return WorkerHerder(
            WorkerHerderDependencies(
                loop=self.loop,
                group_state=self.standing,
                inbox=self.inbox,
                pending_replies=self.asked,
                background_actions=self.orders,
                configs=self.configs,
                statuses=self.statuses,
                plugin_validator=self.validation,
                session_key_settings=SessionKeySettings(),
                thread_pool=self.calls,
                plugin_thread_pool=self.calls,
                cluster_id="c1",
                is_standalone=self.is_standalone,
            )
        )

    def start(self) -> Node:
        self.statuses.start(WAIT_S)
        self.configs.start(WAIT_S)
        self.loop.start()
        return self

    def stop(self) -> None:
        """All but what the loop does by itself; asserts that it ends."""
        self.loop.request_stop()
        assert self.loop.join(WAIT_S)
        assert self.calls.stop(WAIT_S) == []
        self.configs.stop(WAIT_S)
        self.statuses.stop(WAIT_S)

    def ask(self, request: HerderRequest) -> WorkerReply:
        return self.herder.submit_request(request).result(WAIT_S)

    def put(self, name: str, **config: str) -> WorkerReply:
        return self.ask(PutConnector(connector=name, config={"name": name, **config}, replace=True))
