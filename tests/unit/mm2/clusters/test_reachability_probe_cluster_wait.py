"""Commands wait for clusters that may still answer, and not for those that cannot."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.kafka.client_errors import UnreachableError
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol.security_settings import SecuritySettings
from connect_runtime.system.system_clock import SystemClock
from mm2.clusters import reachability_probe

CLOCK = SystemClock()
LONG_S = 60.0


def access(address: str, name: str = "west", protocol: str = "PLAINTEXT") -> KafkaClusterAccess:
    security = SecuritySettings(protocol=protocol)
    return KafkaClusterAccess(name=name, bootstrap=(address,), security=security)


@pytest.fixture
def closed() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_closed_port_is_given_up_long_before_the_time_is_up(closed):
    lines: list[str] = []
    began_s = CLOCK.now_s()
    with pytest.raises(UnreachableError) as raised:
        reachability_probe.require_reachable_clusters(
            [access(closed)], timeout_s=LONG_S, print_line=lines.append, clock=CLOCK
        )
    assert CLOCK.now_s() - began_s < LONG_S / 2
    told = f"west: connection refused ({closed})"
    assert str(raised.value) == f"{told}; diagnose with: mm2 check"
    assert lines[0].startswith(f"{told}; waiting up to ")


def test_a_silent_port_is_waited_for_until_the_time_is_up(silent):
    lines: list[str] = []
    found = reachability_probe.wait_for_clusters(
        [access(silent)], timeout_s=7.0, print_line=lines.append, clock=CLOCK
    )
    assert lines[0].startswith(f"west: no response yet ({silent}); waiting up to ")
    assert (
        reachability_probe.describe_failure_cause(access(silent), found["west"])
        == f"no response within 4 s ({silent})"
    )


def test_settings_that_cannot_be_used_are_no_matter_of_waiting(closed):
    lines: list[str] = []
    broken = KafkaClusterAccess(
        name="west",
        bootstrap=(closed,),
        security=SecuritySettings(protocol="SSL", ca_pem="no certificate"),
    )
    with pytest.raises(FatalError, match="west: "):
        reachability_probe.require_reachable_clusters(
            [broken], timeout_s=LONG_S, print_line=lines.append, clock=CLOCK
        )
    assert lines == []
