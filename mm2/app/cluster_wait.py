"""Waits for clusters that a command asks, and says meanwhile why they do not answer."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Mapping, Sequence

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.wire.codec import failures
from mm2.app import cluster_reach

GIVE_UP_S = 4.0
"""A cluster whose every address refuses connections, or whose name does not resolve, for so long is
not waited for any longer."""
FIRST_LINE_S, LINE_EVERY_S = 1.5, 5.0
TURN_S = 0.02

Failures = Mapping[str, errors.ConnectError]


def wait(
    accesses: Sequence[kafka_access.Access],
    *,
    timeout_s: float,
    tell: Callable[[str], object],
    clock: base_clock.Clock,
) -> Failures:
    """Why clusters do not answer, by `Access.name`; nothing where all did. Returns as soon as that
    is known of each: it answered, refused us, or could not be reached for `GIVE_UP_S`; at the
    latest after `timeout_s`."""
    waits = [_Wait(each, clock=clock) for each in accesses]
    began_s = clock.now_s()
    line_s = began_s + FIRST_LINE_S
    pause = threading.Event()
    try:
        while True:
            now_s = clock.now_s()
            left_s = began_s + timeout_s - now_s
            open_ones = [each for each in waits if not each.settled(now_s)]
            if not open_ones or left_s <= 0.0:
                break
            if now_s >= line_s:
                line_s = now_s + LINE_EVERY_S
                for each in open_ones:
                    tell(
                        f"{each.describe()}; waiting up to {min(left_s, each.left_s(now_s)):.0f} s"
                    )
            pause.wait(TURN_S)
        return {each.name: failure for each in waits if (failure := each.failure) is not None}
    finally:
        for each in waits:
            each.close()


def require(
    accesses: Sequence[kafka_access.Access],
    *,
    timeout_s: float,
    tell: Callable[[str], object],
    clock: base_clock.Clock,
) -> None:
    """Raises `UnreachableError` where a cluster does not answer, `FatalError` where one refuses."""
    found = wait(accesses, timeout_s=timeout_s, tell=tell, clock=clock)
    if found:
        kind = (
            errors.FatalError
            if any(isinstance(each, errors.FatalError) for each in found.values())
            else kafka_errors.UnreachableError
        )
        told = [describe(each, found[each.name]) for each in accesses if each.name in found]
        raise kind("; ".join([*told, cluster_reach.REMEDY]))


def describe(access: kafka_access.Access, failure: errors.ConnectError) -> str:
    """`west: connection refused (127.0.0.1:9092)`."""
    return f"{access.name}: {cause(access, failure)}"


def cause(access: kafka_access.Access, failure: errors.ConnectError) -> str:
    """`connection refused (127.0.0.1:9092)`."""
    return cluster_reach.cause(failure, access.bootstrap).removesuffix(", retrying")


class _Wait:
    """For one cluster."""

    def __init__(self, access: kafka_access.Access, *, clock: base_clock.Clock) -> None:
        self.name = access.name
        self.failure: errors.ConnectError | None = None
        self._access = access
        self._unreachable_since_s = math.inf
        self._probe: cluster_reach.ClusterProbe | None = None
        try:
            self._probe = cluster_reach.ClusterProbe(
                access,
                clock=clock,
                random=random.Random(),  # noqa: S311 - spreads retries
            )
        except errors.ConnectError as error:
            self.failure = error

    def settled(self, now_s: float) -> bool:
        if self._probe is None:
            return True
        self._probe.tick()
        self.failure = self._probe.trouble
        if self._probe.answered:
            return True
        if _is_refusal(self.failure):
            self._unreachable_since_s = min(self._unreachable_since_s, now_s)
        else:
            self._unreachable_since_s = math.inf
        fatal = isinstance(self.failure, errors.FatalError)
        if fatal or self.left_s(now_s) <= 0.0:
            self.close()
            return True
        return False

    def left_s(self, now_s: float) -> float:
        """How long it is still waited for, unless it answers."""
        return max(0.0, self._unreachable_since_s + GIVE_UP_S - now_s)

    def describe(self) -> str:
        if self.failure is not None:
            return describe(self._access, self.failure)
        return f"{self.name}: no answer yet ({','.join(self._access.bootstrap)})"

    def close(self) -> None:
        probe, self._probe = self._probe, None
        if probe is not None:
            probe.close()


def _is_refusal(failure: errors.ConnectError | None) -> bool:
    """Is there an answer at once that nobody listens there?"""
    if not isinstance(failure, failures.ConnectionFailed):
        return False
    return not failure.cause.endswith("in time while connecting") and failure.layer in (
        failures.Layer.DNS,
        failures.Layer.NETWORK,
    )
