"""The herder of a worker, as the REST API asks it: implements `ports.herder`.

What changes connectors and tasks goes through the loop, one after the other. What only looks, or
writes what any worker may, does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Protocol, TypeVar

from connect_runtime.api import config_infos
from connect_runtime.core.assignment import protocol
from connect_runtime.core.herder import events, requests, session_keys
from connect_runtime.core.state import cluster_config, status_log
from connect_runtime.ports import herder as port
from connect_runtime.runtime.herding import inbox as inboxes
from connect_runtime.runtime.herding import loop as loops
from connect_runtime.runtime.herding import orders as orders_module
from connect_runtime.runtime.herding import tickets
from connect_runtime.runtime.stores import config_store, status_store
from connect_runtime.system import pool

T = TypeVar("T")
_STARTING = 503
_INTERNAL_ERROR = 500
"""What Java makes of the UnsupportedOperationException that its StandaloneHerder throws."""
_FROM_WORKERS: Mapping[type, str] = {
    requests.PutTaskConfigs: "Kafka Connect in standalone mode does not support externally setting"
    " task configurations.",
    requests.FenceTasks: "Kafka Connect in standalone mode does not support exactly-once source"
    " connectors.",
}
"""Internal requests, which only workers of a group send each other."""


class Validation(Protocol):
    """What is known of plugins, and asked of them. Any thread; may take as long as they do."""

    def plugins(self) -> Sequence[port.PluginInfo]: ...

    def connector_type(self, config: cluster_config.RawConfig | None) -> port.ConnectorType: ...

    def validate(self, config: cluster_config.RawConfig) -> config_infos.ConfigInfos: ...

    def plugin_config(
        self, plugin: str, version: str | None
    ) -> Sequence[config_infos.ConfigKeyInfo]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the herder is made of. `keys`: `inter.worker.*`. `is_standalone`: no other worker may
    ask it anything."""

    loop: loops.HerderLoop
    standing: loops.Standing
    inbox: inboxes.Inbox
    asked: tickets.Tickets
    orders: orders_module.Orders
    configs: config_store.ConfigStore
    statuses: status_store.StatusStore
    validation: Validation
    keys: session_keys.KeySettings
    calls: pool.Pool
    plugin_calls: pool.Pool
    cluster_id: str | None
    is_standalone: bool = False


class Herder:
    """See `ports.herder.Herder`; so for all below."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def ready(self) -> bool:
        return self._parts.standing.joined_once

    def stage(self) -> port.Stage | None:
        return self._parts.loop.stage

    def kafka_cluster_id(self) -> str | None:
        return self._parts.cluster_id

    def config(self) -> cluster_config.ClusterConfig:
        return self._parts.configs.snapshot()

    def statuses(self) -> status_log.Statuses:
        return self._parts.statuses.snapshot()

    def plugins(self) -> Sequence[port.PluginInfo]:
        return self._parts.validation.plugins()

    def connector_type(self, config: cluster_config.RawConfig | None) -> port.ConnectorType:
        return self._parts.validation.connector_type(config)

    def signs_internal_requests(self) -> bool:
        return self._parts.standing.speaks is protocol.Protocol.SESSIONED

    def verify(
        self, body: bytes, headers: Mapping[str, str], *, must_be_signed: bool = False
    ) -> session_keys.Verdict:
        if not must_be_signed and not self.signs_internal_requests():
            return session_keys.Genuine()
        return session_keys.verify(
            body, headers, key=self.config().session_key, settings=self._parts.keys
        )

    def submit(self, request: requests.Request) -> futures.Future[port.Reply]:
        parts = self._parts
        ticket, future = parts.asked.issue()
        if parts.is_standalone and isinstance(request, tuple(_FROM_WORKERS)):
            parts.asked.answer(
                ticket, requests.Refused(_INTERNAL_ERROR, _FROM_WORKERS[type(request)])
            )
            return future
        if isinstance(request, requests.PutConnector):
            parts.orders.validate_and_put(ticket, request)
            return future
        try:
            taken = parts.inbox.post(events.Submitted(ticket=ticket, request=request))
        except requests.QueueFull as error:
            parts.asked.fail(ticket, error)
        else:
            if not taken:
                parts.asked.answer(ticket, tickets.CLOSED)
        return future

    def set_target_state(
        self, connector: str, state: cluster_config.TargetState
    ) -> futures.Future[None]:
        return self._write(lambda: self._parts.configs.put_target_state(connector, state))

    def reset_topics(self, connector: str) -> futures.Future[None]:
        return self._write(lambda: self._parts.statuses.forget_topics(connector))

    def set_cluster_logger_level(self, namespace: str, level: str) -> futures.Future[None]:
        return self._write(lambda: self._parts.configs.put_logger_level(namespace, level))

    def validate(
        self, config: cluster_config.RawConfig
    ) -> futures.Future[config_infos.ConfigInfos]:
        parts = self._parts
        return _call(parts.plugin_calls, lambda: parts.validation.validate(config))

    def plugin_config(
        self, plugin: str, version: str | None
    ) -> futures.Future[Sequence[config_infos.ConfigKeyInfo]]:
        parts = self._parts
        return _call(parts.plugin_calls, lambda: parts.validation.plugin_config(plugin, version))

    def _write(self, run: Callable[[], None]) -> futures.Future[None]:
        """To an internal topic, once that was read."""
        if self._parts.loop.begun:
            return _call(self._parts.calls, run)
        early: futures.Future[None] = futures.Future()
        early.set_exception(port.Refusal(_STARTING, "Worker is still starting up."))
        return early


def _call(calls: pool.Pool, run: Callable[[], T]) -> futures.Future[T]:
    """What does not concern the loop, on a thread that nobody waits for."""
    try:
        return calls.submit(run)
    except pool.PoolFull as error:
        full: futures.Future[T] = futures.Future()
        full.set_exception(requests.QueueFull(str(error)))
        return full
