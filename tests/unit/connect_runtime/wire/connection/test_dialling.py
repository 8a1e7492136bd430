from __future__ import annotations

import math
import socket

import pytest

from connect_runtime.wire.codec import failures
from connect_runtime.wire.connection import dialling, resolver, transport

BEFORE = OSError("before")
GONE = failures.ConnectionFailed("away.test:9092", "the host name does not resolve: gone")


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


class Names(resolver.Resolver):
    """Answers when `told` is called; `before` is what names stood for."""

    def __init__(self, *before: resolver.Place) -> None:
        self.before = list(before)
        self.waiting: list[resolver.Done] = []

    def ask(self, question: resolver.Question, done: resolver.Done) -> None:
        self.waiting.append(done)

    def leave(self, question: resolver.Question, done: resolver.Done) -> None:
        self.waiting.remove(done)

    def known(self, question: resolver.Question) -> list[resolver.Place]:
        return self.before

    def given_up(self, question: resolver.Question) -> resolver.Answer:
        return self.before or GONE

    def told(self, answer: resolver.Answer) -> None:
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(answer)


def dialled(host, port, names, **options):
    return dialling.Dialling(host, port, names=names, tls=None, buffer_bytes=None, **options)


def resolved(port, *, addresses, ends_s=10.0):
    """A dialling with so many times the same address; `ends_s` from zero."""
    found = dialled("127.0.0.1", port, Names())
    found.resolve(0.0, ends_s=ends_s, resolved=lambda: None)
    found._places.extend([found._places[0]] * (addresses - 1))
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
        names = Names()
        told: list[str] = []
        found = dialled("127.0.0.1", port, names, canonical=canonical)
        found.resolve(0.0, ends_s=10.0, resolved=lambda told=told: told.append("resolved"))
        names.told(resolver.look_up(resolver.Question("127.0.0.1", port, canonical)))
        assert told == ["resolved"]
        found.next_transport(0.0, BEFORE).close()
    assert called == ["127.0.0.1", socket.getnameinfo(("127.0.0.1", port), 0)[0]]
    assert called[1] != called[0]


def test_nothing_is_tried_once_the_time_is_over(port):
    assert resolved(port, addresses=2).next_transport(10.0, BEFORE) is BEFORE


def test_an_address_that_is_refused_at_once_is_passed_over(port):
    found = resolved(port, addresses=1)
    everybody = (socket.AF_INET, ("255.255.255.255", port))  # no TCP to them
    unreachable = resolver.Place(everybody, "everybody")
    found._places.appendleft(unreachable)
    assert tried(found, 0.0) == 10.0
    found._places.append(unreachable)
    failure = found.next_transport(1.0, BEFORE)
    assert isinstance(failure, OSError)
    assert failure is not BEFORE


def test_a_connection_that_stands_is_not_waited_for(port):
    found = resolved(port, addresses=2)
    tried(found, 0.0)
    found.connected()
    assert found.attempt_ends_s == math.inf


def test_a_name_that_does_not_resolve_is_said_so():
    names, told = Names(), []
    found = dialled("away.test", 9092, names)
    found.resolve(0.0, ends_s=10.0, resolved=lambda: told.append("resolved"))
    assert told == []
    names.told(GONE)
    assert told == ["resolved"]
    assert found.next_transport(0.1, BEFORE) is GONE


def test_who_knows_no_address_waits_for_the_resolver_until_the_end():
    names, told = Names(), []
    found = dialled("away.test", 9092, names)
    found.resolve(0.0, ends_s=10.0, resolved=lambda: told.append("resolved"))
    assert found.attempt_ends_s == 10.0
    assert found.next_transport(10.0, TimeoutError()) is GONE
    assert (names.waiting, told) == ([], [])


def test_who_knows_an_address_of_before_soon_goes_on_with_that(port):
    names, told = Names(resolver.Place((socket.AF_INET, ("127.0.0.1", port)), "here.test")), []
    found = dialled("here.test", port, names)
    found.resolve(0.0, ends_s=10.0, resolved=lambda: told.append("resolved"))
    assert found.attempt_ends_s == 2.0
    assert tried(found, 2.0) == 10.0
    assert (names.waiting, told) == ([], []), "an answer that comes late is for others"


def test_after_the_end_nobody_is_told_of_addresses(port):
    names, told = Names(), []
    found = dialled("here.test", port, names)
    found.resolve(0.0, ends_s=10.0, resolved=lambda: told.append("resolved"))
    found.close()
    found.close()
    assert (names.waiting, told) == ([], [])
