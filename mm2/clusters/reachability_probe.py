"""Detects within seconds why a cluster cannot be reached, and waits for clusters to respond.

The Kafka library retries silently and reports a cause only when a request times out, a minute
later. This module requests each cluster's metadata over separate connections that immediately
report the cause of every failed attempt.
"""

from __future__ import annotations

import dataclasses
import math
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from random import Random

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.kafka.client_errors import UnreachableError
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.network.client_requests import ClientResponse
from connect_runtime.network.cluster_connections import ClusterConnections
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.protocol import request_builders
from connect_runtime.protocol.request_builders import AnyNodeTarget
from connect_runtime.protocol.request_errors import (
    AuthenticationFailed,
    ConnectionFailed,
    RequestFailureLayer,
    RequestTimedOut,
)

ANSWER_TIMEOUT_S = 4.0
"""Time in seconds without a response after which a broker is reported as not responding. Requests
to the broker continue."""
RETRY_DELAY_S = 1.0
RECHECK_DELAY_S = 3.0
DIAGNOSE_COMMAND = "diagnose with: mm2 check"
_CONNECT_STAGES = (" while connecting", " while opening")


class MetadataProbe:
    """Requests one cluster's metadata repeatedly. Not thread-safe.

    The second request is sent to a broker's advertised address, so that an unreachable listener is
    detected, too. Raises `ConnectError` for invalid settings.
    """

    def __init__(self, access: KafkaClusterAccess, *, clock: Clock, random: Random) -> None:
        self.answered = False
        self.failure: ConnectError | None = None
        """Reason why the cluster has not responded. None if it has responded, or during the first
        attempt."""
        self._bootstrap = access.bootstrap
        self._clock = clock
        self._asked = False
        self._ask_at_s = -math.inf
        self._poller = Poller()
        options = dataclasses.replace(
            access.to_connection_settings("mm2-reach"),
            connect_timeout_s=ANSWER_TIMEOUT_S,
            request_timeout_s=ANSWER_TIMEOUT_S,
            quiet=True,
        )
        try:
            self._connections = ClusterConnections(
                options, poller=self._poller, clock=clock, random=random
            )
        except ValueError as error:
            self._poller.close()
            raise FatalError(f"bootstrap.servers: {error}") from error
        except BaseException:
            self._poller.close()
            raise

    def tick(self) -> None:
        """Send pending requests and process received responses without blocking."""
        now_s = self._clock.now_s()
        if not self._asked and now_s >= self._ask_at_s:
            self._asked = True
            self._connections.call(
                AnyNodeTarget(),
                request_builders.build_metadata_request(()),
                done=self._handle_metadata_response,
                timeout_s=ANSWER_TIMEOUT_S,
            )
        self._connections.tick(now_s)
        self._poller.poll(0.0)
        if self._asked and not self._connections.view.brokers:
            trouble = find_first_failure(self._connections.get_connection_errors(), self._bootstrap)
            if trouble is not None:
                self._record_failure(trouble)

    def close(self) -> None:
        self._connections.close()
        self._poller.close()

    def _handle_metadata_response(self, reply: ClientResponse) -> None:
        self._asked = False
        now_s = self._clock.now_s()
        if reply.failure is None:
            self.answered, self.failure = True, None
            self._ask_at_s = now_s + RECHECK_DELAY_S
        else:
            troubles = self._connections.get_connection_errors()
            self._record_failure(find_first_failure(troubles, self._bootstrap) or reply.failure)
            self._ask_at_s = now_s + RETRY_DELAY_S

    def _record_failure(self, failure: ConnectError) -> None:
        self.answered, self.failure = False, failure


def describe_connect_failure(failure: ConnectError, bootstrap: Sequence[str]) -> str:
    """Format a connection failure, such as `connection refused (127.0.0.1:9092), retrying`."""
    address = ""
    match failure:
        case ConnectionFailed():
            text, address = failure.cause, failure.address
        case AuthenticationFailed():
            text, address = failure.problem, failure.address
        case RequestTimedOut():
            return describe_missing_response(bootstrap)
        case _:
            text = str(failure)
    for stage in _CONNECT_STAGES:
        text = text.replace(stage, "")
    if text.endswith(" in time"):
        return describe_missing_response(bootstrap)
    if text[:2].istitle():
        text = text[0].lower() + text[1:]
    where = address if address and address not in bootstrap else ",".join(bootstrap)
    retrying = "" if isinstance(failure, FatalError) else ", retrying"
    return f"{text} ({where}){retrying}"


def describe_missing_response(bootstrap: Sequence[str]) -> str:
    """Format the failure of a cluster that accepts connections or drops packets, but never
    responds."""
    return f"no response within {ANSWER_TIMEOUT_S:g} s ({','.join(bootstrap)}), retrying"


def find_first_failure(
    troubles: Mapping[str, ConnectError], bootstrap: Sequence[str]
) -> ConnectError | None:
    """Return the reason why no broker can be reached, or None while an address is still being
    tried.

    `troubles` contains the failures, keyed by bootstrap address until the first response, then by
    broker.
    """
    if any(each in bootstrap for each in troubles):
        return troubles[bootstrap[0]] if all(each in troubles for each in bootstrap) else None
    return next(iter(troubles.values()), None)


REFUSAL_GIVE_UP_S = 4.0
"""Time in seconds after which waiting for a cluster ends, if all its addresses have refused
connections or could not be resolved during this time."""
FIRST_LINE_DELAY_S, LINE_INTERVAL_S = 1.5, 5.0
WAIT_POLL_INTERVAL_S = 0.02

FailuresByCluster = Mapping[str, ConnectError]


def wait_for_clusters(
    accesses: Sequence[KafkaClusterAccess],
    *,
    timeout_s: float,
    print_line: Callable[[str], object],
    clock: Clock,
) -> FailuresByCluster:
    """Wait until each cluster has responded or failed. Returns the failures by cluster name.

    A cluster has failed if it denied access, if it could not be reached for `REFUSAL_GIVE_UP_S`, or
    if it has not responded after `timeout_s`.
    """
    waits = [_ClusterResponseWaiter(each, clock=clock) for each in accesses]
    began_s = clock.now_s()
    line_s = began_s + FIRST_LINE_DELAY_S
    pause = threading.Event()
    try:
        while True:
            now_s = clock.now_s()
            left_s = began_s + timeout_s - now_s
            open_ones = [each for each in waits if not each.poll_cluster(now_s)]
            if not open_ones or left_s <= 0.0:
                break
            if now_s >= line_s:
                line_s = now_s + LINE_INTERVAL_S
                for each in open_ones:
                    print_line(
                        f"{each.describe_cluster()}; waiting up to "
                        f"{min(left_s, each.compute_remaining_s(now_s)):.0f} s"
                    )
            pause.wait(WAIT_POLL_INTERVAL_S)
        return {each.name: failure for each in waits if (failure := each.failure) is not None}
    finally:
        for each in waits:
            each.close()


def require_reachable_clusters(
    accesses: Sequence[KafkaClusterAccess],
    *,
    timeout_s: float,
    print_line: Callable[[str], object],
    clock: Clock,
) -> None:
    """Raise `UnreachableError` if a cluster does not respond, or `FatalError` if a cluster denies
    access."""
    found = wait_for_clusters(accesses, timeout_s=timeout_s, print_line=print_line, clock=clock)
    if found:
        kind = (
            FatalError
            if any(isinstance(each, FatalError) for each in found.values())
            else UnreachableError
        )
        told = [
            describe_cluster_failure(each, found[each.name])
            for each in accesses
            if each.name in found
        ]
        raise kind("; ".join([*told, DIAGNOSE_COMMAND]))


def describe_cluster_failure(access: KafkaClusterAccess, failure: ConnectError) -> str:
    """Format a failure with the cluster alias: `west: connection refused (127.0.0.1:9092)`."""
    return f"{access.name}: {describe_failure_cause(access, failure)}"


def describe_failure_cause(access: KafkaClusterAccess, failure: ConnectError) -> str:
    """Format the cause of a failure: `connection refused (127.0.0.1:9092)`."""
    return describe_connect_failure(failure, access.bootstrap).removesuffix(", retrying")


class _ClusterResponseWaiter:
    """Waits for one cluster to respond to a metadata request, and records why it cannot be
    reached."""

    def __init__(self, access: KafkaClusterAccess, *, clock: Clock) -> None:
        self.name = access.name
        self.failure: ConnectError | None = None
        self._access = access
        self._unreachable_since_s = math.inf
        self._probe: MetadataProbe | None = None
        try:
            self._probe = MetadataProbe(
                access,
                clock=clock,
                random=random.Random(),  # noqa: S311 - spreads retries
            )
        except ConnectError as error:
            self.failure = error

    def poll_cluster(self, now_s: float) -> bool:
        """Poll the cluster. Returns True if it has responded or failed."""
        if self._probe is None:
            return True
        self._probe.tick()
        self.failure = self._probe.failure
        if self._probe.answered:
            return True
        if _is_connection_refused(self.failure):
            self._unreachable_since_s = min(self._unreachable_since_s, now_s)
        else:
            self._unreachable_since_s = math.inf
        fatal = isinstance(self.failure, FatalError)
        if fatal or self.compute_remaining_s(now_s) <= 0.0:
            self.close()
            return True
        return False

    def compute_remaining_s(self, now_s: float) -> float:
        """Return how much longer to wait, in seconds, if the cluster does not respond."""
        return max(0.0, self._unreachable_since_s + REFUSAL_GIVE_UP_S - now_s)

    def describe_cluster(self) -> str:
        if self.failure is not None:
            return describe_cluster_failure(self._access, self.failure)
        return f"{self.name}: no response yet ({','.join(self._access.bootstrap)})"

    def close(self) -> None:
        probe, self._probe = self._probe, None
        if probe is not None:
            probe.close()


def _is_connection_refused(failure: ConnectError | None) -> bool:
    """Return True if connecting fails immediately because the address is refused, unreachable or
    unresolvable."""
    if not isinstance(failure, ConnectionFailed):
        return False
    return not failure.cause.endswith("in time while connecting") and failure.layer in (
        RequestFailureLayer.DNS,
        RequestFailureLayer.NETWORK,
    )
