"""Tries every address of a cluster as the copies would come in, and what its brokers advertise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Hashable
from random import Random
from typing import TypeVar

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline, errors
from connect_runtime.wire.codec import cluster_view, failures, messages, targets
from connect_runtime.wire.connection import cluster as wire
from connect_runtime.wire.connection import poller, security
from mm2.app.preflight import certificates, logins
from mm2.connectors import operators
from mm2.core.preflight import reach

K = TypeVar("K", bound=Hashable)

_TURN_S = 0.05
_SPARE_S = 1.0
"""The connections' own deadlines pass first: they know what was waited for."""


def reach_all(
    login: logins.Login, *, clock: base_clock.Clock, random: Random, timeout_s: float
) -> reach.Reached:
    """All addresses side by side, all brokers side by side, certificates: three times `timeout_s`
    at most."""
    access = login.access
    blank = unreached(login, clock=clock)
    options = dataclasses.replace(
        access.connection("mm2-check"),
        connect_timeout_s=timeout_s,
        request_timeout_s=timeout_s,
    )
    try:
        looks = _Looks(options, clock=clock, random=random, timeout_s=timeout_s)
    except security.UnusableCertificate as error:
        tried = tuple(_tried(each, error) for each in access.bootstrap)
        return dataclasses.replace(blank, bootstrap=tried)
    with looks:
        bootstrap = looks.bootstrap()
        brokers = looks.brokers()
    end = deadline.Deadline.after(timeout_s, now_s=clock.now_s())

    def dated(each: reach.Tried) -> reach.Tried:
        left_s = end.left_s(clock.now_s())
        if each.layer is not None or left_s == 0.0:
            return each
        until_ms = certificates.shown_until_ms(each.address, access.security, left_s)
        return dataclasses.replace(each, until_ms=until_ms)

    return dataclasses.replace(
        blank,
        bootstrap=tuple(map(dated, bootstrap)),
        brokers=brokers,
        own_until_ms=certificates.own_until_ms(access.security),
    )


def unreached(login: logins.Login, *, clock: base_clock.Clock, why: str = "") -> reach.Reached:
    """What is known of a login before anybody tried it, or when nobody got to its end: `why`."""
    access = login.access
    tried = (
        reach.Tried(address=each, layer=failures.Layer.NETWORK, text=why)
        for each in access.bootstrap
    )
    return reach.Reached(
        alias=login.alias,
        clients=login.clients,
        protocol=access.security.protocol,
        user=operators.principal(access.security).removeprefix("User:"),
        bootstrap=tuple(tried) if why else (),
        tool=operators.cluster(access),
        at_ms=clock.wall_ms(),
    )


class _Looks:
    """One connection to each address of `bootstrap`, all on one poller."""

    def __init__(
        self,
        options: wire.ConnectionSettings,
        *,
        clock: base_clock.Clock,
        random: Random,
        timeout_s: float,
    ) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._poller = poller.Poller()
        self._by_address: dict[str, wire.ClusterConnections] = {}
        for address in options.bootstrap:
            alone = dataclasses.replace(options, bootstrap=(address,))
            self._by_address[address] = wire.ClusterConnections(
                alone, poller=self._poller, clock=clock, random=random
            )

    def __enter__(self) -> _Looks:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._by_address.values():
            each.close()
        self._poller.close()

    def bootstrap(self) -> tuple[reach.Tried, ...]:
        """Each answers with the cluster's brokers, or says why not."""
        replies: dict[str, wire.Reply] = {}

        def asking(address: str) -> Callable[[wire.Reply], None]:
            return lambda reply: replies.update({address: reply})

        def failed(address: str) -> errors.ConnectError | None:
            reply = replies.get(address)
            troubles = self._by_address[address].troubles()
            return reply.failure if reply is not None else next(iter(troubles.values()), None)

        for address, each in self._by_address.items():
            each.call(targets.AnyNode(), messages.metadata(()), done=asking(address))
        found = self._until(
            self._by_address,
            lambda address: bool(self._by_address[address].view.brokers),
            failed,
        )
        return tuple(_tried(address, found[address]) for address in self._by_address)

    def brokers(self) -> tuple[reach.Tried, ...]:
        """Each broker that the first that answered tells of, where it says that it is."""
        known = next((each for each in self._by_address.values() if each.view.brokers), None)
        if known is None:
            return ()
        replies: dict[int, wire.Reply] = {}
        addresses = {
            node: cluster_view.format_address(each.host, each.port)
            for node, each in sorted(known.view.brokers.items())
        }

        def asking(node: int) -> Callable[[wire.Reply], None]:
            return lambda reply: replies.update({node: reply})

        for node in addresses:
            known.call(targets.Node(node), messages.metadata(()), done=asking(node))

        def failed(node: int) -> errors.ConnectError | None:
            reply = replies.get(node)
            return known.trouble(node) if reply is None else reply.failure

        found = self._until(
            addresses,
            lambda node: node in replies and replies[node].failure is None,
            failed,
        )
        return tuple(_tried(addresses[node], found[node], node=node) for node in addresses)

    def _until(
        self,
        wanted: Collection[K],
        done: Callable[[K], bool],
        failed: Callable[[K], errors.ConnectError | None],
    ) -> dict[K, errors.ConnectError | None]:
        """Of each what failed, None for those that are done."""
        end = deadline.Deadline.after(self._timeout_s + _SPARE_S, now_s=self._clock.now_s())
        found: dict[K, errors.ConnectError | None] = {}
        while len(found) < len(wanted):
            late = end.passed(self._clock.now_s())
            for key in wanted:
                if key in found:
                    continue
                if done(key):
                    found[key] = None
                elif (failure := failed(key)) is not None:
                    found[key] = failure
                elif late:
                    found[key] = errors.RetriableError(f"no answer within {self._timeout_s:g} s")
            now_s = self._clock.now_s()
            due_s = min(each.tick(now_s) for each in self._by_address.values())
            self._poller.poll(min(_TURN_S, due_s))
        return found


def _tried(
    address: str, failure: errors.ConnectError | None, *, node: int | None = None
) -> reach.Tried:
    if failure is None:
        return reach.Tried(address=address, node=node)
    layer = failures.layer(failure)
    if isinstance(failure, security.UnusableCertificate):
        layer = failures.Layer.TLS
    return reach.Tried(address=address, layer=layer, text=_cause(failure, address), node=node)


def _cause(failure: errors.ConnectError, address: str) -> str:
    """Without the address, which is told beside it; who issues tokens has another one."""
    match failure:
        case failures.ConnectionFailed() if failure.address == address:
            return failure.cause
        case failures.AuthenticationFailed() if failure.address == address:
            return failure.problem
        case _:
            return str(failure)
