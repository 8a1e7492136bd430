"""`WorkerHerder`: implements `Herder`, the interface that the REST API uses.

Requests that change connectors and tasks are executed in order by the herder's loop. Read requests,
and writes that any worker may perform, do not wait for the loop.
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
from connect_runtime.herder.herder_events import RequestSubmitted
from connect_runtime.herder.herder_interface import (
    ConnectorType,
    ConnectRestError,
    HerderStage,
    PluginInfo,
    WorkerReply,
)
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
from connect_runtime.system.supervised_threads import ThreadPool, ThreadPoolFull

T = TypeVar("T")
_STARTING_STATUS = 503
_INTERNAL_ERROR_STATUS = 500
"""HTTP status with which Java responds if its StandaloneHerder throws
UnsupportedOperationException."""
_STANDALONE_REFUSALS: Mapping[type, str] = {
    PutTaskConfigs: "Kafka Connect in standalone mode does not support externally setting"
    " task configurations.",
    FenceZombieTasks: "Kafka Connect in standalone mode does not support exactly-once source"
    " connectors.",
}
"""Error messages for internal requests, which only workers of a group send to each other."""


class PluginValidator(Protocol):
    """Lists and validates plugins. May be called from any thread. Calls may be slow, because they
    run plugin code."""

    def plugins(self) -> Sequence[PluginInfo]: ...

    def connector_type(self, config: RawConfig | None) -> ConnectorType: ...

    def validate_connector_config(self, config: RawConfig) -> ConfigInfos: ...

    def connector_plugin_config(
        self, plugin: str, version: str | None
    ) -> Sequence[ConfigKeyInfo]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHerderDependencies:
    """Dependencies of `WorkerHerder`."""

    loop: HerderLoop
    group_state: WorkerGroupState
    inbox: HerderInbox
    pending_replies: PendingReplies
    background_actions: BackgroundActionRunner
    configs: ConfigBackingStore
    statuses: StatusBackingStore
    plugin_validator: PluginValidator
    session_key_settings: SessionKeySettings
    """The settings `inter.worker.*`."""
    thread_pool: ThreadPool
    plugin_thread_pool: ThreadPool
    cluster_id: str | None
    is_standalone: bool = False
    """True if this is a standalone worker, which refuses internal requests."""


class WorkerHerder:
    """Implements `Herder`. The methods are documented in `Herder`."""

    def __init__(self, deps: WorkerHerderDependencies) -> None:
        self._deps = deps

    def is_ready(self) -> bool:
        return self._deps.group_state.has_joined

    def get_current_stage(self) -> HerderStage | None:
        return self._deps.loop.stage

    def kafka_cluster_id(self) -> str | None:
        return self._deps.cluster_id

    def get_config_state(self) -> ClusterConfigState:
        return self._deps.configs.snapshot()

    def get_statuses(self) -> StatusSnapshot:
        return self._deps.statuses.snapshot()

    def plugins(self) -> Sequence[PluginInfo]:
        return self._deps.plugin_validator.plugins()

    def connector_type(self, config: RawConfig | None) -> ConnectorType:
        return self._deps.plugin_validator.connector_type(config)

    def signs_internal_requests(self) -> bool:
        return self._deps.group_state.protocol.signs_requests

    def signs_whole_requests(self) -> bool:
        return self._deps.group_state.protocol is ConnectProtocol.SESSIONED_WHOLE

    def verify_request_signature(
        self, body: bytes, headers: Mapping[str, str], *, must_be_signed: bool = False
    ) -> SignatureCheck:
        if not must_be_signed and not self.signs_internal_requests():
            return SignatureValid()
        return session_keys.verify_signature(
            body,
            headers,
            key=self.get_config_state().session_key,
            settings=self._deps.session_key_settings,
        )

    def submit_request(self, request: HerderRequest) -> futures.Future[WorkerReply]:
        deps = self._deps
        ticket, future = deps.pending_replies.create_reply_future()
        if deps.is_standalone and isinstance(request, tuple(_STANDALONE_REFUSALS)):
            deps.pending_replies.complete_reply(
                ticket, RequestRefused(_INTERNAL_ERROR_STATUS, _STANDALONE_REFUSALS[type(request)])
            )
            return future
        if isinstance(request, PutConnector):
            deps.background_actions.validate_and_put_connector(ticket, request)
            return future
        try:
            accepted = deps.inbox.post_event(RequestSubmitted(ticket=ticket, request=request))
        except HerderQueueFullError as error:
            deps.pending_replies.fail_reply(ticket, error)
        else:
            if not accepted:
                deps.pending_replies.complete_reply(ticket, background_actions.SHUTTING_DOWN_REPLY)
        return future

    def set_target_state(self, connector: str, state: TargetState) -> futures.Future[None]:
        return self._write_to_internal_topic(
            lambda: self._deps.configs.put_target_state(connector, state)
        )

    def reset_connector_active_topics(self, connector: str) -> futures.Future[None]:
        return self._write_to_internal_topic(
            lambda: self._deps.statuses.delete_active_topics(connector)
        )

    def set_cluster_logger_level(self, namespace: str, level: str) -> futures.Future[None]:
        return self._write_to_internal_topic(
            lambda: self._deps.configs.put_logger_level(namespace, level)
        )

    def validate_connector_config(self, config: RawConfig) -> futures.Future[ConfigInfos]:
        deps = self._deps
        return _run_in_thread_pool(
            deps.plugin_thread_pool, lambda: deps.plugin_validator.validate_connector_config(config)
        )

    def connector_plugin_config(
        self, plugin: str, version: str | None
    ) -> futures.Future[Sequence[ConfigKeyInfo]]:
        deps = self._deps
        return _run_in_thread_pool(
            deps.plugin_thread_pool,
            lambda: deps.plugin_validator.connector_plugin_config(plugin, version),
        )

    def _write_to_internal_topic(self, run: Callable[[], None]) -> futures.Future[None]:
        """Run a write to an internal topic in the thread pool. Fails if the stores are not loaded
        yet."""
        if self._deps.loop.has_started:
            return _run_in_thread_pool(self._deps.thread_pool, run)
        failed: futures.Future[None] = futures.Future()
        failed.set_exception(ConnectRestError(_STARTING_STATUS, "Worker is still starting up."))
        return failed


def _run_in_thread_pool(calls: ThreadPool, run: Callable[[], T]) -> futures.Future[T]:
    """Run a call in the thread pool. The future fails with `HerderQueueFullError` if the pool is
    full."""
    try:
        return calls.submit(run)
    except ThreadPoolFull as error:
        full: futures.Future[T] = futures.Future()
        full.set_exception(HerderQueueFullError(str(error)))
        return full
