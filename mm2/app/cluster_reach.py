"""Why clusters cannot be reached, known within seconds.

The Kafka library retries in silence and names a cause only when a request's time is up, a minute
later. Here each cluster is asked for its metadata over connections of our own, which know the
cause of every failed attempt at once.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors, log_context
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.wire.codec import failures, messages, targets
from connect_runtime.wire.connection import calls, cluster, poller

WITHIN_S = 4.0
"""A broker that has not answered by then is reported as silent. It is still asked."""
AGAIN_S = 1.0
AFTER_ANSWER_S = 3.0
TURN_S, BUSY_TURN_S = 0.5, 0.05
QUIET_S = 60.0
"""The same cause of the same cluster is logged once in so long."""
REMEDY = "to diagnose: mm2 check"
_SILENT = f"no answer within {WITHIN_S:g} s"
_STAGES = (" while connecting", " while opening")

_log = logging.getLogger(__name__)


Wanted = Mapping[str, Sequence[kafka_access.Access]]
"""How to reach the clusters of each flow; `name` is the cluster's alias."""


class Probe(Protocol):
    """As `ClusterProbe`."""

    @property
    def answered(self) -> bool: ...

    @property
    def trouble(self) -> errors.ConnectError | None: ...

    def tick(self) -> None: ...

    def close(self) -> None: ...


class MakeProbe(Protocol):
    """As `ClusterProbe`; raises `ConnectError` for settings that cannot be honoured."""

    def __call__(
        self, access: kafka_access.Access, *, clock: base_clock.Clock, random: Random
    ) -> Probe: ...


class ClusterProbe:
    """Asks one cluster for its metadata, again and again; one thread.

    The second question goes to a broker's advertised address, so that a listener which cannot be
    reached from here is found, too. `trouble`: why there is no answer, None while there is one, or
    the first attempt is under way. Raises `ConnectError` for settings that cannot be honoured.
    """

    def __init__(
        self, access: kafka_access.Access, *, clock: base_clock.Clock, random: Random
    ) -> None:
        self.answered = False
        self.trouble: errors.ConnectError | None = None
        self._bootstrap = access.bootstrap
        self._clock = clock
        self._asked = False
        self._ask_at_s = -math.inf
        self._poller = poller.Poller()
        options = dataclasses.replace(
            access.connection("mm2-reach"),
            connect_timeout_s=WITHIN_S,
            request_timeout_s=WITHIN_S,
            quiet=True,
        )
        try:
            self._connections = cluster.ClusterConnections(
                options, poller=self._poller, clock=clock, random=random
            )
        except ValueError as error:
            self._poller.close()
            raise errors.FatalError(f"bootstrap.servers: {error}") from error
        except BaseException:
            self._poller.close()
            raise

    def tick(self) -> None:
        """Move what can move, without waiting."""
        now_s = self._clock.now_s()
        if not self._asked and now_s >= self._ask_at_s:
            self._asked = True
            self._connections.call(
                targets.AnyNode(), messages.metadata(()), done=self._replied, timeout_s=WITHIN_S
            )
        self._connections.tick(now_s)
        self._poller.poll(0.0)
        if self._asked and not self._connections.view.brokers:
            troubles = self._connections.troubles()
            if all(each in troubles for each in self._bootstrap):
                self._failed(troubles[self._bootstrap[0]])

    def close(self) -> None:
        self._connections.close()
        self._poller.close()

    def _replied(self, reply: calls.Reply) -> None:
        self._asked = False
        now_s = self._clock.now_s()
        if reply.failure is None:
            self.answered, self.trouble = True, None
            self._ask_at_s = now_s + AFTER_ANSWER_S
        else:
            troubles = self._connections.troubles()
            first = next((each for each in self._bootstrap if each in troubles), None)
            self._failed(
                next(iter(troubles.values()), reply.failure) if first is None else troubles[first]
            )
            self._ask_at_s = now_s + AGAIN_S

    def _failed(self, failure: errors.ConnectError) -> None:
        self.answered, self.trouble = False, failure


class Unusable:
    """In the place of a probe that cannot be made: `trouble` says why."""

    answered = False

    def __init__(self, trouble: errors.ConnectError) -> None:
        self.trouble: errors.ConnectError | None = trouble

    def tick(self) -> None:
        """There is nothing to do."""

    def close(self) -> None:
        """Nothing is open."""


def describe(access: kafka_access.Access, failure: errors.ConnectError) -> str:
    """`west: connection refused (127.0.0.1:9092), retrying`."""
    address = ""
    match failure:
        case failures.ConnectionFailed():
            cause, address = failure.cause, failure.address
        case failures.AuthenticationFailed():
            cause, address = failure.problem, failure.address
        case failures.RequestTimedOut():
            cause = _SILENT
        case _:
            cause = str(failure)
    for stage in _STAGES:
        cause = cause.replace(stage, "")
    if cause.endswith(" in time"):
        cause = _SILENT
    if cause[:2].istitle():
        cause = cause[0].lower() + cause[1:]
    where = address if address and address not in access.bootstrap else ",".join(access.bootstrap)
    retrying = "" if isinstance(failure, errors.FatalError) else ", retrying"
    return f"{access.name}: {cause} ({where}){retrying}"


class ClusterReach:
    """Asks the clusters that `wanted` names, by flow, as long as it names them; logs each cause
    when it appears and when it is gone. `run` is a thread's body; any thread may call `trouble`."""

    def __init__(
        self,
        wanted: Callable[[], Wanted],
        *,
        clock: base_clock.Clock,
        random: Random,
        make_probe: MakeProbe = ClusterProbe,
    ) -> None:
        self._wanted = wanted
        self._clock = clock
        self._random = random
        self._make_probe = make_probe
        self._probes: list[tuple[kafka_access.Access, Probe]] = []
        self._troubles: Mapping[str, Mapping[str, str]] = {}
        self._logged_s: dict[tuple[str, str], float] = {}
        self._logged: set[tuple[str, str]] = set()

    def trouble(self, flow: str) -> str:
        """Why the flow's clusters cannot be reached and what to do; "" while they can, or it is
        not known yet."""
        found = self._troubles.get(flow, {})
        return f"{'; '.join(found.values())}; {REMEDY}" if found else ""

    def run(self, stop: threading.Event) -> None:
        try:
            pause_s = 0.0
            while not stop.wait(pause_s):
                pause_s = self.turn()
        finally:
            self._keep(())

    def turn(self) -> float:
        """Returns after how many seconds the next one is due."""
        wanted = self._wanted()
        self._keep([each for accesses in wanted.values() for each in accesses])
        for _, probe in self._probes:
            probe.tick()
        found = {flow: self._of(accesses) for flow, accesses in wanted.items()}
        before, self._troubles = self._troubles, found
        for flow, troubles in found.items():
            self._log(flow, before.get(flow, {}), troubles)
        waits = any(not probe.answered for _, probe in self._probes)
        return BUSY_TURN_S if waits else TURN_S

    def _of(self, accesses: Sequence[kafka_access.Access]) -> Mapping[str, str]:
        """By cluster."""
        found: dict[str, str] = {}
        for access in accesses:
            trouble = self._probe(access).trouble
            if trouble is not None:
                found.setdefault(access.name, describe(access, trouble))
        return found

    def _log(self, flow: str, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        at_s = self._clock.now_s()
        with log_context.within(flow=flow):
            for alias, text in now.items():
                known = before.get(alias) == text
                quiet = at_s - self._logged_s.get((flow, text), -math.inf) < QUIET_S
                if not known and not quiet:
                    self._logged_s[flow, text] = at_s
                    self._logged.add((flow, alias))
                    _log.warning("%s: %s", flow, text)
            for alias in before.keys() - now.keys():
                if (flow, alias) in self._logged:
                    self._logged.discard((flow, alias))
                    _log.info("%s: %s answers", flow, alias)

    def _keep(self, accesses: Sequence[kafka_access.Access]) -> None:
        """A probe for each of these, and no other."""
        kept = [(known, probe) for known, probe in self._probes if _has(accesses, known)]
        for known, probe in self._probes:
            if not _has(accesses, known):
                probe.close()
        for access in accesses:
            if not _has([known for known, _ in kept], access):
                kept.append((access, self._make(access)))
        self._probes = kept

    def _make(self, access: kafka_access.Access) -> Probe:
        try:
            return self._make_probe(access, clock=self._clock, random=self._random)
        except errors.ConnectError as error:
            return Unusable(error)

    def _probe(self, access: kafka_access.Access) -> Probe:
        return next(probe for known, probe in self._probes if _is_same(known, access))


def _has(accesses: Sequence[kafka_access.Access], wanted: kafka_access.Access) -> bool:
    return any(_is_same(each, wanted) for each in accesses)


def _is_same(one: kafka_access.Access, other: kafka_access.Access) -> bool:
    """The same cluster, reached as the same user."""
    return (one.name, one.bootstrap, one.security) == (other.name, other.bootstrap, other.security)
