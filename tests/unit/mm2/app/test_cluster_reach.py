"""Why clusters cannot be reached: what is found out on sockets of this machine, and what is shown
and logged of it."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import pytest

from connect_runtime.base import errors
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.system import clock, polling
from connect_runtime.wire.codec import failures
from mm2.app import cluster_reach
from tests.fakes import plugin_contexts

CLOCK = clock.SystemClock()
RANDOM = random.Random(1)


def access(address: str, name: str = "west") -> kafka_access.Access:
    return kafka_access.Access(name=name, bootstrap=(address,))


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that accepts connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def closed() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def first_trouble(of: kafka_access.Access) -> str:
    probe = cluster_reach.ClusterProbe(of, clock=CLOCK, random=RANDOM)

    def asked() -> bool:
        probe.tick()
        return probe.trouble is not None

    try:
        assert polling.until(asked, timeout_s=30.0, interval_s=0.01)
        assert probe.trouble is not None
        return cluster_reach.describe(of, probe.trouble)
    finally:
        probe.close()


def test_a_closed_port_is_a_refused_connection(closed, caplog):
    assert first_trouble(access(closed)) == f"west: connection refused ({closed}), retrying"
    assert caplog.text == "", "who asks logs it"


def test_a_port_that_never_answers_is_reported_as_silent(silent):
    expected = f"west: no answer within {cluster_reach.WITHIN_S:g} s ({silent}), retrying"
    assert first_trouble(access(silent)) == expected


def test_a_name_that_does_not_resolve_is_named():
    found = first_trouble(access("no.such.host.invalid:9092"))
    assert found.startswith("west: the host name does not resolve: ")
    assert found.endswith(" (no.such.host.invalid:9092), retrying")


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (
            failures.AuthenticationFailed("h:1", "TLS: the certificate has expired"),
            "west: TLS: the certificate has expired (h:1)",
        ),
        (
            failures.ConnectionFailed("broker:9", "Connection reset by peer while opening"),
            "west: connection reset by peer (broker:9), retrying",
        ),
        (
            failures.ConnectionFailed("h:1", "no connection in time while connecting"),
            "west: no answer within 4 s (h:1), retrying",
        ),
        (errors.FatalError("no such file"), "west: no such file (h:1)"),
    ],
)
def test_causes_in_words(failure, words):
    assert cluster_reach.describe(access("h:1"), failure) == words


class Probe:
    def __init__(self) -> None:
        self.answered = False
        self.trouble: errors.ConnectError | None = None
        self.closed = False

    def tick(self) -> None:
        """The test says what it finds."""

    def close(self) -> None:
        self.closed = True


class Reach:
    def __init__(self) -> None:
        self.probes: dict[str, Probe] = {}
        self.wanted: cluster_reach.Wanted = {}
        self.clock = plugin_contexts.Clock()
        self.made = cluster_reach.ClusterReach(
            lambda: self.wanted, clock=self.clock, random=RANDOM, make_probe=self.make
        )

    def make(self, access: kafka_access.Access, **_: object) -> Probe:
        if access.bootstrap == ("unusable:1",):
            raise errors.FatalError("no certificate")
        return self.probes.setdefault(access.name, Probe())


REFUSED = failures.ConnectionFailed("w:1", "Connection refused while connecting")


def test_a_cause_is_shown_and_logged_once_until_the_cluster_answers(caplog):
    caplog.set_level("INFO")
    reach = Reach()
    reach.wanted = {"east->west": [access("e:1", "east"), access("w:1")]}
    reach.made.turn()
    assert reach.made.trouble("east->west") == "", "nobody knows yet"
    for _ in range(3):
        reach.probes["west"].trouble = REFUSED
        reach.made.turn()
    told = "west: connection refused (w:1), retrying"
    assert reach.made.trouble("east->west") == f"{told}; to diagnose: mm2 check"
    assert caplog.messages == [f"east->west: {told}"]
    assert caplog.records[0].levelname == "WARNING"
    reach.probes["west"].trouble = None
    reach.made.turn()
    assert reach.made.trouble("east->west") == ""
    assert caplog.messages[1:] == ["east->west: west answers"]


def test_both_clusters_are_named():
    reach = Reach()
    reach.wanted = {"east->west": [access("unusable:1", "east"), access("w:1")]}
    reach.made.turn()
    reach.probes["west"].trouble = REFUSED
    reach.made.turn()
    found = reach.made.trouble("east->west")
    assert found.startswith("east: no certificate (unusable:1); west: connection refused (w:1)")


def test_a_cause_that_comes_and_goes_is_not_logged_every_time(caplog):
    caplog.set_level("INFO")
    reach = Reach()
    reach.wanted = {"east->west": [access("w:1")]}
    for trouble in [None, REFUSED] * 3:
        reach.made.turn()
        reach.probes["west"].trouble = trouble
        reach.made.turn()
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO"]
    reach.clock.now += cluster_reach.QUIET_S
    for trouble in (None, REFUSED):
        reach.probes["west"].trouble = trouble
        reach.made.turn()
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO", "WARNING"]


def test_flows_share_a_probe_and_it_ends_with_the_last_of_them():
    reach = Reach()
    reach.wanted = {"east->west": [access("w:1")], "north->west": [access("w:1")]}
    reach.made.turn()
    probe = reach.probes["west"]
    probe.trouble = REFUSED
    reach.made.turn()
    assert all(map(reach.made.trouble, reach.wanted))
    reach.wanted = {"north->west": [access("w:1")]}
    reach.made.turn()
    assert (reach.made.trouble("east->west"), probe.closed) == ("", False)
    reach.wanted = {}
    reach.made.turn()
    assert probe.closed
