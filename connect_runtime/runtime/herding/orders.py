"""Carries out what the herder orders of others than its group: none of it holds the herder up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.api import config_infos
from connect_runtime.base import amounts
from connect_runtime.core.herder import events, instructions, requests, validation
from connect_runtime.core.state import cluster_config, status_records
from connect_runtime.ports import herder as port
from connect_runtime.ports import peers as peers_port
from connect_runtime.ports import worker as worker_port
from connect_runtime.runtime.herding import tickets
from connect_runtime.runtime.stores import config_store, status_store
from connect_runtime.system import log_levels, pool

_LOG = logging.getLogger(__name__)
_FENCING = 501
_NOBODY_ASKS = (
    "only the group's leader publishes them, and without internal REST this worker cannot reach it "
    "(MirrorMaker's nodes: dedicated.mode.enable.internal.rest=true in the files of all)"
)


class OffsetOperations(Protocol):
    """What `PUT`, `PATCH`, `DELETE` and `GET …/offsets` come to (KIP-875). Any thread; waits."""

    def read(self, connector: str, config: cluster_config.RawConfig) -> port.Offsets: ...

    def modify(
        self,
        connector: str,
        config: cluster_config.RawConfig,
        offsets: requests.NewOffsets | None,
    ) -> port.OffsetsModified: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """What orders are carried out with. `signs_with`: `inter.worker.signature.algorithm`.
    `plugin_calls`: for what is asked of plugins, which may never answer. `on_leading`: called, on a
    thread of its own, when this worker has become the leader (Java: `rebalanceSuccess`)."""

    configs: config_store.ConfigStore
    statuses: status_store.StatusStore
    worker: worker_port.Worker
    offsets: OffsetOperations
    peers: peers_port.Peers | None
    signs_with: str
    validate: Callable[[cluster_config.RawConfig], config_infos.ConfigInfos]
    calls: pool.Pool
    plugin_calls: pool.Pool
    levels: log_levels.LogLevels
    worker_id: str
    generation: Callable[[], int]
    on_leading: Callable[[], None]


class Orders:
    """`obey` is for the herder's thread; what it starts posts events, or answers tickets."""

    def __init__(
        self,
        hands: Hands,
        *,
        asked: tickets.Tickets,
        post: Callable[[events.Event], object],
    ) -> None:
        self._hands = hands
        self._tickets = asked
        self._post = post

    def obey(self, order: instructions.Order) -> None:
        """Orders for the group are not for here, and nothing happens."""
        hands = self._hands
        match order:
            case instructions.Answer(ticket, reply):
                self._tickets.answer(ticket, reply)
            case instructions.Note(text, warns):
                _LOG.log(logging.WARNING if warns else logging.INFO, "%s", text)
            case instructions.SetTargetState(connector=name, state=state):
                hands.worker.set_target_state(name, state)
            case instructions.SayRestarting(what):
                for item in what.items:
                    self._say(item, status_records.State.RESTARTING)
            case instructions.ForgetStatuses(subjects):
                for subject in subjects:
                    self._say(subject, status_records.State.DESTROYED)
            case instructions.ForgetTopics(name):
                hands.statuses.forget_topics(name)
            case instructions.SetLoggerLevel(namespace, level):
                self._set_level(namespace, level)
            case _:
                self._obey_elsewhere(order)

    def _obey_elsewhere(self, order: instructions.Order) -> None:
        match order:
            case instructions.TellOfLeading():
                self._call(self._hands.on_leading, self._hands.calls).add_done_callback(
                    _tell_failure
                )
            case instructions.ForwardTaskConfigs():
                self._forward(order)
            case instructions.ValidateAndPut():
                self.validate_and_put(
                    order.ticket,
                    requests.PutConnector(connector=order.connector, config=order.config),
                )
            case instructions.AnswerByWorker(ticket=ticket, request=request):
                self._answer_by_worker(ticket, request)
            case instructions.FenceProducers(ticket=ticket):
                self._tickets.answer(
                    ticket,
                    requests.Refused(
                        _FENCING,
                        "This worker cannot fence producers: exactly-once sources are not offered"
                        " by this version; let a worker lead that offers them",
                    ),
                )

    def refuse_all(self) -> None:
        """The herder has ended: nobody is left without an answer."""
        self._tickets.refuse_all(tickets.CLOSED)

    def _set_level(self, namespace: str, level: str) -> None:
        if level.upper() not in log_levels.LEVELS:
            _LOG.warning("there is no log level %s: %s stays as it is", level, namespace)
            return
        changed = self._hands.levels.set(namespace, level)
        loggers = amounts.counted(len(changed), "logger")
        _LOG.info("log level %s for %s: %s", level, namespace, loggers)

    def validate_and_put(self, ticket: int, request: requests.PutConnector) -> None:
        """Validate, on a thread of its own, then submit it with what was found."""

        def run() -> None:
            infos = self._hands.validate(request.config)
            judged = requests.PutConnector(
                connector=request.connector,
                config=request.config,
                target_state=request.target_state,
                replace=request.replace,
                invalid=validation.refusal(infos),
            )
            if not self._post(events.Submitted(ticket=ticket, request=judged)):
                self._tickets.answer(ticket, tickets.CLOSED)

        self._tickets.fail_with(ticket, self._call(run, self._hands.plugin_calls))

    def _say(self, subject: status_records.Subject, state: status_records.State) -> None:
        status = status_records.Status(
            state=state, worker_id=self._hands.worker_id, generation=self._hands.generation()
        )
        self._hands.statuses.put(subject, status)

    def _forward(self, order: instructions.ForwardTaskConfigs) -> None:
        peers = self._hands.peers
        if peers is None:
            self._post(events.TaskConfigsForwarded(token=order.token, error=_NOBODY_ASKS))
            return
        call = peers_port.task_configs(
            order.leader_url,
            order.connector,
            order.configs,
            key=self._hands.configs.snapshot().session_key,
            algorithm=self._hands.signs_with,
        )

        def told(error: BaseException | None) -> events.TaskConfigsForwarded:
            if error is None:
                return events.TaskConfigsForwarded(token=order.token)
            status = error.status if isinstance(error, peers_port.PeerRefused) else None
            return events.TaskConfigsForwarded(token=order.token, error=str(error), status=status)

        future = self._call(lambda: peers.send_and_wait(call), self._hands.calls)
        future.add_done_callback(lambda done: self._post(told(done.exception())))

    def _answer_by_worker(
        self, ticket: int, request: requests.ReadOffsets | requests.ModifyOffsets
    ) -> None:
        config = self._hands.configs.snapshot().config(request.connector)
        if config is None:
            self._tickets.answer(
                ticket, requests.Refused(404, f"Connector {request.connector} not found")
            )
            return
        known = config

        def run() -> port.Offsets | port.OffsetsModified:
            offsets = self._hands.offsets
            if isinstance(request, requests.ReadOffsets):
                return offsets.read(request.connector, known)
            return offsets.modify(request.connector, known, request.offsets)

        self._tickets.settle(ticket, self._call(run, self._hands.plugin_calls))

    def _call(self, run: Callable[[], object], calls: pool.Pool) -> futures.Future[object]:
        """On a thread that nobody waits for; fails with `QueueFull` if there is none left."""
        try:
            return calls.submit(run)
        except pool.PoolFull as error:
            failed: futures.Future[object] = futures.Future()
            failed.set_exception(requests.QueueFull(str(error)))
            return failed


def _tell_failure(done: futures.Future[object]) -> None:
    error = done.exception()
    if error is not None:
        _LOG.error("what the new leader had to do failed: %s", error, exc_info=error)
