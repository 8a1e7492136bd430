"""Whole herders in one process: real loops over fake topics, a fake group and fake workers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.api import config_infos, errors
from connect_runtime.core.assignment import protocol
from connect_runtime.core.herder import events, memory, requests, session_keys
from connect_runtime.core.state import cluster_config, config_log
from connect_runtime.ports import group as group_port
from connect_runtime.ports import herder as port
from connect_runtime.ports import peers as peers_port
from connect_runtime.runtime.herding import (
    alone_group,
    herder,
    inbox,
    loop,
    orders,
    questions,
    tickets,
)
from connect_runtime.runtime.stores import config_store, status_store
from connect_runtime.system import clock, log_levels, pool
from tests.fakes import group, shared_log, worker_port

CLOCK = clock.SystemClock()
WAIT_S = 30.0
NO_ERRORS = config_infos.ConfigInfos(name="", error_count=0, groups=(), configs=())


class FakeValidation:
    """`finds` is what every validation answers, or raises."""

    def __init__(self) -> None:
        self.finds: config_infos.ConfigInfos | Exception = NO_ERRORS

    def plugins(self) -> Sequence[port.PluginInfo]:
        return ()

    def connector_type(self, config: cluster_config.RawConfig | None) -> port.ConnectorType:
        return port.ConnectorType.UNKNOWN

    def validate(self, config: cluster_config.RawConfig) -> config_infos.ConfigInfos:
        if isinstance(self.finds, Exception):
            raise self.finds
        return self.finds

    def plugin_config(
        self, plugin: str, version: str | None
    ) -> Sequence[config_infos.ConfigKeyInfo]:
        raise errors.NotFoundError(f"there is no plugin {plugin}")


class FakeOffsets:
    def read(self, connector: str, config: cluster_config.RawConfig) -> port.Offsets:
        return port.Offsets(())

    def modify(
        self,
        connector: str,
        config: cluster_config.RawConfig,
        offsets: requests.NewOffsets | None,
    ) -> port.OffsetsModified:
        return port.OffsetsModified("done")


@dataclass
class Cluster:
    """Workers that share topics and a group. `forwarded` are calls from worker to worker; while
    there are `refusals`, each is answered by the next of them."""

    coordinator: group.FakeCoordinator = field(default_factory=group.FakeCoordinator)
    configs: shared_log.FakeTopic = field(default_factory=shared_log.FakeTopic)
    statuses: shared_log.FakeTopic = field(default_factory=shared_log.FakeTopic)
    nodes: dict[str, Node] = field(default_factory=dict)
    forwarded: list[peers_port.Call] = field(default_factory=list)
    refusals: list[Exception] = field(default_factory=list)

    def node(self, name: str, *, offers: protocol.Protocol = protocol.Protocol.SESSIONED) -> Node:
        made = Node(self, name, group=self.coordinator.member(name, offers=offers), offers=offers)
        self.nodes[f"http://{name}/"] = made
        return made

    def alone(self) -> Node:
        return Node(self, "alone", group=None, offers=protocol.Protocol.COMPATIBLE)

    def stop(self) -> None:
        for each in self.nodes.values():
            each.stop()

    async def send(self, call: peers_port.Call) -> peers_port.Said:
        raise NotImplementedError

    def send_and_wait(self, call: peers_port.Call) -> peers_port.Said:
        """As a worker's REST API would: verified, then submitted."""
        self.forwarded.append(call)
        if self.refusals:
            raise self.refusals.pop(0)
        at, body = self.nodes[call.url].herder, call.body or b""
        verdict = at.verify(body, call.signature)
        if isinstance(verdict, session_keys.NotGenuine):
            raise peers_port.PeerRefused(
                verdict.message, status=verdict.status, error_code=verdict.status
            )
        request = requests.PutTaskConfigs(
            connector=call.path.split("/")[2], configs=json.loads(body)
        )
        reply = at.submit(request).result(WAIT_S)
        if not isinstance(reply, requests.Accepted):
            raise peers_port.PeerFailed(str(reply))
        return peers_port.Said(status=204)


class Node:
    """One worker's herder, with all that it drives."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        *,
        group: group.FakeGroup | None,
        offers: protocol.Protocol,
    ) -> None:
        self.is_standalone = group is None
        self.worker = worker_port.FakeWorker()
        self.validation = FakeValidation()
        self.ended = threading.Event()
        self.inbox = inbox.Inbox()
        self.asked = tickets.Tickets()
        self.calls = pool.Pool(name, threads_max=4, waiting_max=8)
        self.levels = log_levels.LogLevels(clock=CLOCK)
        self.standing = loop.Standing(speaks=offers)
        self.led: list[int] = []
        self.on_leading: Callable[[], None] = lambda: self.led.append(self.standing.generation)
        self.configs = config_store.ConfigStore(
            shared_log.FakeSharedLog(cluster.configs),
            clock=CLOCK,
            on_change=self._changed,
        )
        self.statuses = status_store.StatusStore(
            shared_log.FakeSharedLog(cluster.statuses), clock=CLOCK
        )
        self.worker.on_reached = self._reached
        self.group: group_port.Group = group or alone_group.AloneGroup(
            f"http://{name}/", self.configs.snapshot, clock=CLOCK
        )
        self.orders = self._orders(cluster, name)
        self.questions = questions.Questions(
            questions.Hands(
                configs=self.configs,
                statuses=self.statuses,
                worker=self.worker,
                calls=self.calls,
                keys=session_keys.KeySettings(),
                resolve=lambda config: self.resolve(config),
            )
        )
        self.loop = self._loop()
        self.herder = self._herder()
        self.resolve: Callable[[Mapping[str, str | None]], object] = dict

    def _changed(self, change: config_log.Change) -> None:
        self.inbox.post(events.ConfigChanged(change))

    def _reached(
        self, connector: str, state: cluster_config.TargetState, error: str | None
    ) -> None:
        self.inbox.post(events.ConnectorReached(connector=connector, state=state, error=error))

    def _orders(self, cluster: Cluster, name: str) -> orders.Orders:
        return orders.Orders(
            orders.Hands(
                configs=self.configs,
                statuses=self.statuses,
                worker=self.worker,
                offsets=FakeOffsets(),
                peers=cluster,
                signs_with="HmacSHA256",
                validate=lambda config: self.validation.validate(config),
                calls=self.calls,
                plugin_calls=self.calls,
                levels=self.levels,
                worker_id=name,
                generation=lambda: self.standing.generation,
                on_leading=lambda: self.on_leading(),
            ),
            asked=self.asked,
            post=self.inbox.post,
        )

    def _loop(self) -> loop.HerderLoop:
        return loop.HerderLoop(
            loop.Surroundings(
                settings=memory.HerderSettings(rebalance_delay_max_s=0.0),
                configs=self.configs,
                statuses=self.statuses,
                group=self.group,
                questions=self.questions,
                orders=self.orders,
                inbox=self.inbox,
                standing=self.standing,
                on_end=self.ended.set,
                clock=CLOCK,
            )
        )

    def _herder(self) -> herder.Herder:
        return herder.Herder(
            herder.Parts(
                loop=self.loop,
                standing=self.standing,
                inbox=self.inbox,
                asked=self.asked,
                orders=self.orders,
                configs=self.configs,
                statuses=self.statuses,
                validation=self.validation,
                keys=session_keys.KeySettings(),
                calls=self.calls,
                plugin_calls=self.calls,
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
        self.loop.ask_stop()
        assert self.loop.join(WAIT_S)
        assert self.calls.stop(WAIT_S) == []
        self.configs.stop(WAIT_S)
        self.statuses.stop(WAIT_S)

    def ask(self, request: requests.Request) -> port.Reply:
        return self.herder.submit(request).result(WAIT_S)

    def put(self, name: str, **config: str) -> port.Reply:
        return self.ask(
            requests.PutConnector(connector=name, config={"name": name, **config}, replace=True)
        )
