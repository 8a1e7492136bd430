"""Commands wait for clusters that may still answer, and not for those that cannot."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from connect_runtime.base import errors
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.system import clock
from connect_runtime.wire.codec import security_settings
from mm2.app import cluster_wait

CLOCK = clock.SystemClock()
LONG_S = 60.0


def access(address: str, name: str = "west", protocol: str = "PLAINTEXT") -> kafka_access.Access:
    security = security_settings.Security(protocol=protocol)
    return kafka_access.Access(name=name, bootstrap=(address,), security=security)


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
    with pytest.raises(kafka_errors.UnreachableError) as raised:
        cluster_wait.require([access(closed)], timeout_s=LONG_S, tell=lines.append, clock=CLOCK)
    assert CLOCK.now_s() - began_s < LONG_S / 2
    told = f"west: connection refused ({closed})"
    assert str(raised.value) == f"{told}; diagnose with: mm2 check"
    assert lines[0].startswith(f"{told}; waiting up to ")


def test_a_silent_port_is_waited_for_until_the_time_is_up(silent):
    lines: list[str] = []
    found = cluster_wait.wait([access(silent)], timeout_s=7.0, tell=lines.append, clock=CLOCK)
    assert lines[0].startswith(f"west: no answer yet ({silent}); waiting up to ")
    assert cluster_wait.cause(access(silent), found["west"]) == f"no answer within 4 s ({silent})"


def test_settings_that_cannot_be_used_are_no_matter_of_waiting(closed):
    lines: list[str] = []
    broken = kafka_access.Access(
        name="west",
        bootstrap=(closed,),
        security=security_settings.Security(protocol="SSL", ca_pem="no certificate"),
    )
    with pytest.raises(errors.FatalError, match="west: "):
        cluster_wait.require([broken], timeout_s=LONG_S, tell=lines.append, clock=CLOCK)
    assert lines == []
