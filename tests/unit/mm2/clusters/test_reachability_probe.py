"""Why clusters cannot be reached, found out on sockets of this machine."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol.request_errors import AuthenticationFailed, ConnectionFailed
from connect_runtime.system import system_clock
from connect_runtime.system.system_clock import SystemClock
from mm2.clusters import reachability_probe
from mm2.clusters.reachability_probe import MetadataProbe

CLOCK = SystemClock()
RANDOM = random.Random(1)


def access(address: str, name: str = "west") -> KafkaClusterAccess:
    return KafkaClusterAccess(name=name, bootstrap=(address,))


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that accepts connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def closed() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def first_trouble(of: KafkaClusterAccess) -> str:
    probe = MetadataProbe(of, clock=CLOCK, random=RANDOM)

    def asked() -> bool:
        probe.tick()
        return probe.failure is not None

    try:
        assert system_clock.wait_until(asked, timeout_s=30.0, interval_s=0.01)
        assert probe.failure is not None
        return reachability_probe.describe_connect_failure(probe.failure, of.bootstrap)
    finally:
        probe.close()


def test_a_closed_port_is_a_refused_connection(closed, caplog):
    assert first_trouble(access(closed)) == f"connection refused ({closed}), retrying"
    assert caplog.text == "", "who asks logs it"


def test_a_port_that_never_answers_is_reported_as_silent(silent):
    expected = f"no response within {reachability_probe.ANSWER_TIMEOUT_S:g} s ({silent}), retrying"
    assert first_trouble(access(silent)) == expected


def test_a_name_that_does_not_resolve_is_named():
    found = first_trouble(access("no.such.host.invalid:9092"))
    assert found.startswith("the host name cannot be resolved: ")
    assert found.endswith(" (no.such.host.invalid:9092), retrying")


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (
            AuthenticationFailed("h:1", "TLS: the certificate has expired"),
            "TLS: the certificate has expired (h:1)",
        ),
        (
            ConnectionFailed("broker:9", "Connection reset by peer while opening"),
            "connection reset by peer (broker:9), retrying",
        ),
        (
            ConnectionFailed("h:1", "no connection in time while connecting"),
            "no response within 4 s (h:1), retrying",
        ),
        (FatalError("no such file"), "no such file (h:1)"),
    ],
)
def test_causes_in_words(failure, words):
    assert reachability_probe.describe_connect_failure(failure, ["h:1"]) == words


def test_an_address_that_is_still_tried_may_answer():
    bootstrap = ("a:1", "b:1")
    first, second = (
        ConnectionFailed(each, "Connection refused while connecting") for each in bootstrap
    )
    assert reachability_probe.find_first_failure({}, bootstrap) is None
    assert reachability_probe.find_first_failure({"b:1": second}, bootstrap) is None
    assert reachability_probe.find_first_failure({"b:1": second, "a:1": first}, bootstrap) is first
    assert reachability_probe.find_first_failure({"broker 7": second}, bootstrap) is second
