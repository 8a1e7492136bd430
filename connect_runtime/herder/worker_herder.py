"""The herder of this worker, as REST calls it: implements `Herder`.

Requests that change connectors and tasks pass through the herder's loop one after the other.
Requests that only read, or write what every worker may write, do not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Protocol, TypeVar

from connect_runtime.api.config_infos import ConfigInfos, ConfigKeyInfo
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.herder import background_actions, session_keys
from connect_runtime.herder.background_actions import BackgroundActionRunner, PendingReplies
from connect_runtime.herder.herder_api import (
    ConnectorType,
    ConnectRestError,
    HerderStage,
    PluginInfo,
    WorkerReply,
)
from connect_runtime.herder.herder_events import RequestSubmitted
from connect_runtime.herder.herder_loop import HerderInbox, HerderLoop, WorkerGroupState
from connect_runtime.herder.herder_requests import (
    FenceZombieTasks,
    HerderQueueFullError,
    HerderRequest,
    PutConnector,
    PutTaskConfigs,
    RequestRefused,
)
from connect_runtime.herder.session_keys import SessionKeySettings, SignatureCheck, SignatureValid
from connect_runtime.storage.cluster_config_state import ClusterConfigState, RawConfig, TargetState
from connect_runtime.storage.config_store import ConfigBackingStore
from connect_runtime.storage.status_store import StatusBackingStore
from connect_runtime.storage.status_topic import StatusSnapshot
from connect_runtime.system.threads import ThreadPool, ThreadPoolFull

T = TypeVar("T")
_STARTING_STATUS = 503
_INTERNAL_ERROR_STATUS = 500
"""What Java makes of the UnsupportedOperationException that its StandaloneHerder throws."""
_STANDALONE_REFUSALS: Mapping[type, str] = {
    PutTaskConfigs: "Kafka Connect in standalone mode does not support externally setting"
    " task configurations.",
    FenceZombieTasks: "Kafka Connect in standalone mode does not support exactly-once source"
    " connectors.",
}
"""Internal requests, which only workers of a group send each other."""


class PluginValidator(Protocol):
    """What is known of plugins, and asked of them. Any thread; may take as long as they do."""

    def plugins(self) -> Sequence[PluginInfo]: ...

    def connector_type(self, config: RawConfig | None) -> ConnectorType: ...

    def validate(self, config: RawConfig) -> ConfigInfos: ...

    def plugin_config(self, plugin: str, version: str | None) -> Sequence[ConfigKeyInfo]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHerderDeps:
    """What the herder is made of. `keys`: `inter.worker.*`. `is_standalone`: no other worker may
    ask it anything."""

    loop: HerderLoop
    standing: WorkerGroupState
    inbox: HerderInbox
    asked: PendingReplies
    orders: BackgroundActionRunner
    configs: ConfigBackingStore
    statuses: StatusBackingStore
    validation: PluginValidator
    keys: SessionKeySettings
    calls: ThreadPool
    plugin_calls: ThreadPool
    cluster_id: str | None
    is_standalone: bool = False


class WorkerHerder:
    """See `ports.herder.Herder`; so for all below."""

    def __init__(self, parts: WorkerHerderDeps) -> None:
        self._parts = parts

    def ready(self) -> bool:
        return self._parts.standing.joined_once

    def stage(self) -> HerderStage | None:
        return self._parts.loop.stage

    def kafka_cluster_id(self) -> str | None:
        return self._parts.cluster_id

    def config(self) -> ClusterConfigState:
        return self._parts.configs.snapshot()

    def statuses(self) -> StatusSnapshot:
        return self._parts.statuses.snapshot()

    def plugins(self) -> Sequence[PluginInfo]:
        return self._parts.validation.plugins()

    def connector_type(self, config: RawConfig | None) -> ConnectorType:
        return self._parts.validation.connector_type(config)

    def signs_internal_requests(self) -> bool:
        return self._parts.standing.speaks is ConnectProtocol.SESSIONED

    def verify(
        self, body: bytes, headers: Mapping[str, str], *, must_be_signed: bool = False
    ) -> SignatureCheck:
        if not must_be_signed and not self.signs_internal_requests():
            return SignatureValid()
        return session_keys.verify_signature(
            body, headers, key=self.config().session_key, settings=self._parts.keys
        )

    def submit(self, request: HerderRequest) -> futures.Future[WorkerReply]:
        parts = self._parts
        ticket, future = parts.asked.issue()
        if parts.is_standalone and isinstance(request, tuple(_STANDALONE_REFUSALS)):
            parts.asked.answer(
                ticket, RequestRefused(_INTERNAL_ERROR_STATUS, _STANDALONE_REFUSALS[type(request)])
            )
            return future
        if isinstance(request, PutConnector):
            parts.orders.validate_and_put(ticket, request)
            return future
        try:
            taken = parts.inbox.post(RequestSubmitted(ticket=ticket, request=request))
        except HerderQueueFullError as error:
            parts.asked.fail(ticket, error)
        else:
            if not taken:
                parts.asked.answer(ticket, background_actions.SHUTTING_DOWN_REPLY)
        return future

    def set_target_state(self, connector: str, state: TargetState) -> futures.Future[None]:
        return self._write(lambda: self._parts.configs.put_target_state(connector, state))

    def reset_topics(self, connector: str) -> futures.Future[None]:
        return self._write(lambda: self._parts.statuses.forget_topics(connector))

    def set_cluster_logger_level(self, namespace: str, level: str) -> futures.Future[None]:
        return self._write(lambda: self._parts.configs.put_logger_level(namespace, level))

    def validate(self, config: RawConfig) -> futures.Future[ConfigInfos]:
        parts = self._parts
        return _run_in_pool(parts.plugin_calls, lambda: parts.validation.validate(config))

    def plugin_config(
        self, plugin: str, version: str | None
    ) -> futures.Future[Sequence[ConfigKeyInfo]]:
        parts = self._parts
        return _run_in_pool(
            parts.plugin_calls, lambda: parts.validation.plugin_config(plugin, version)
        )

    def _write(self, run: Callable[[], None]) -> futures.Future[None]:
        """To an internal topic, once that was read."""
        if self._parts.loop.begun:
            return _run_in_pool(self._parts.calls, run)
        early: futures.Future[None] = futures.Future()
        early.set_exception(ConnectRestError(_STARTING_STATUS, "Worker is still starting up."))
        return early


def _run_in_pool(calls: ThreadPool, run: Callable[[], T]) -> futures.Future[T]:
    """What does not concern the loop, on a thread that nobody waits for."""
    try:
        return calls.submit(run)
    except ThreadPoolFull as error:
        full: futures.Future[T] = futures.Future()
        full.set_exception(HerderQueueFullError(str(error)))
        return full
