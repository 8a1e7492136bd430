from __future__ import annotations

import math
import socket

import pytest

from connect_runtime.wire.codec import failures
from connect_runtime.wire.connection import dialling, transport

BEFORE = OSError("before")


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def resolved(port, *, addresses, ends_s=10.0):
    """A dialling with so many times the same address; `ends_s` from zero."""
    found = dialling.Dialling("127.0.0.1", port, tls=None, buffer_bytes=None)
    found.resolve(ends_s=ends_s)
    found._addresses.extend([found._addresses[0]] * (addresses - 1))
    return found


def tried(found, now_s):
    """Whether a connection is under way, and until when it may be."""
    begun = found.next_transport(now_s, BEFORE)
    assert isinstance(begun, transport.Transport)
    begun.close()
    return found.attempt_ends_s


def test_each_address_has_a_share_of_the_time_and_the_last_one_the_rest(port):
    found = resolved(port, addresses=3)
    assert found.attempt_ends_s == math.inf
    assert [tried(found, now_s) for now_s in (0.0, 3.0, 6.0)] == [3.0, 6.0, 10.0]
    assert found.next_transport(9.0, BEFORE) is BEFORE


def test_of_many_addresses_all_are_tried_in_time(port):
    found = resolved(port, addresses=8, ends_s=8.0)
    assert [tried(found, float(second)) for second in range(8)] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_host_may_be_called_by_the_names_of_its_addresses(port, monkeypatch):
    """`resolve_canonical_bootstrap_servers_only`: one alias for many hosts."""
    called = []

    class Noted(transport.Transport):
        def __init__(self, address, *, host, context, buffer_bytes):
            called.append(host)
            super().__init__(address, host=host, context=context, buffer_bytes=buffer_bytes)

    monkeypatch.setattr(transport, "Transport", Noted)
    for canonical in (False, True):
        found = dialling.Dialling(
            "127.0.0.1", port, tls=None, buffer_bytes=None, canonical=canonical
        )
        found.resolve(ends_s=10.0)
        found.next_transport(0.0, BEFORE).close()
    assert called == ["127.0.0.1", socket.getnameinfo(("127.0.0.1", port), 0)[0]]
    assert called[1] != called[0]


def test_nothing_is_tried_once_the_time_is_over(port):
    assert resolved(port, addresses=2).next_transport(10.0, BEFORE) is BEFORE


def test_an_address_that_is_refused_at_once_is_passed_over(port):
    found = resolved(port, addresses=1)
    unreachable = (socket.AF_INET, ("255.255.255.255", port))  # no TCP to everybody
    found._addresses.appendleft(unreachable)
    assert tried(found, 0.0) == 10.0
    found._addresses.append(unreachable)
    failure = found.next_transport(1.0, BEFORE)
    assert isinstance(failure, OSError)
    assert failure is not BEFORE


def test_a_connection_that_stands_is_not_waited_for(port):
    found = resolved(port, addresses=2)
    tried(found, 0.0)
    found.connected()
    assert found.attempt_ends_s == math.inf


def test_a_name_that_does_not_resolve_is_said_so():
    found = dialling.Dialling("nowhere.invalid", 9092, tls=None, buffer_bytes=None)
    with pytest.raises(failures.ConnectionFailed, match="does not resolve"):
        found.resolve(ends_s=10.0)
