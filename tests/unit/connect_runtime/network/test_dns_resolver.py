from __future__ import annotations

import logging
import math
import socket
import threading

import pytest

from connect_runtime.network import dns_resolver
from connect_runtime.network.dns_resolver import (
    ConnectAttempts,
    HostLookup,
    HostResolver,
    LookupResult,
    OnLookupDone,
    ResolvedAddress,
)
from connect_runtime.network.tcp_and_tls_transport import Poller, Transport
from connect_runtime.protocol.request_errors import ConnectionFailed
from connect_runtime.system import system_clock

AWAY = HostLookup("away.test", 9092)
HERE = HostLookup("here.test", 9092)
PLACES = [ResolvedAddress((socket.AF_INET, ("127.0.0.1", 9092)), "here.test")]
UNREACHABLE = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
UNKNOWN = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


class Asked:
    """A resolver whose look-ups are answered by `says`; "away.test" hangs until `gate` is set."""

    def __init__(self) -> None:
        self.poller = Poller()
        self.gate = threading.Event()
        self.says: list[ResolvedAddress] | Exception = PLACES
        self.looked_up: list[HostLookup] = []
        self.names = HostResolver(poller=self.poller, look_up=self._look_up)
        self.told: list[LookupResult] = []

    def _look_up(self, question: HostLookup) -> list[ResolvedAddress]:
        self.looked_up.append(question)
        if question.host == AWAY.host:
            assert self.gate.wait(20.0)
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    def answer(self, question: HostLookup = HERE) -> LookupResult:
        """Ask, and turn until the answer is there."""
        self.told.clear()
        self.names.start_lookup(question, self.told.append)
        assert not self.told, "`done` was called inside `ask`"
        return self.awaited()

    def awaited(self) -> LookupResult:
        wait_for(self.heard, "where is the answer")
        (answer,) = self.told
        return answer

    def heard(self) -> bool:
        self.poller.poll(0.02)
        return bool(self.told)


@pytest.fixture
def asked():
    made = Asked()
    yield made
    made.gate.set()
    made.names.close()
    made.poller.close()


def wait_for(condition, what):
    assert system_clock.wait_until(condition, timeout_s=10.0, interval_s=0.01), what


def threads_of_resolvers():
    return [each.name for each in threading.enumerate() if each.name.startswith("resolver-")]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_address_in_digits_is_looked_up_by_nobody(host):
    found = dns_resolver.parse_numeric_address(HostLookup(host, 9092))
    assert found is not None
    (place,) = found
    assert place.address[1][:2] == (host, 9092)
    assert place.name == host
    assert threads_of_resolvers() == []


@pytest.mark.parametrize("question", [HERE, HostLookup("127.0.0.1", 9092, canonical=True)], ids=str)
def test_for_names_somebody_has_to_be_asked(question):
    assert dns_resolver.parse_numeric_address(question) is None


def test_a_name_that_hangs_holds_up_no_other(asked):
    waiting: list[LookupResult] = []
    asked.names.start_lookup(AWAY, waiting.append)
    assert asked.answer(HERE) == PLACES
    assert waiting == []
    asked.gate.set()
    wait_for(lambda: bool(asked.poller.poll(0.02) or waiting), "where is the late answer")
    assert waiting == [PLACES]


def test_a_name_under_way_is_asked_once_and_all_are_told_but_who_left(asked):
    told: list[str] = []
    waiting = [lambda _, who=who: told.append(who) for who in ("first", "second", "third")]
    for done in waiting:
        asked.names.start_lookup(AWAY, done)
    asked.names.cancel_lookup(AWAY, waiting[1])
    asked.gate.set()
    wait_for(lambda: bool(asked.poller.poll(0.02) or told), "where is the answer")
    assert told == ["first", "third"]
    assert asked.looked_up == [AWAY]


def test_while_no_server_answers_the_address_of_before_serves(asked, caplog):
    asked.says = UNREACHABLE
    assert "cannot be resolved: Temporary failure" in str(asked.answer())
    asked.says = PLACES
    assert asked.answer() == PLACES
    asked.says = UNREACHABLE
    with caplog.at_level(logging.WARNING):
        assert asked.answer() == asked.answer() == PLACES
    assert caplog.messages == [
        "here.test:9092: the name server does not respond; using the previous address, 127.0.0.1"
    ]


def test_a_name_that_is_gone_stands_for_nothing_any_more(asked):
    assert asked.answer() == PLACES
    asked.says = UNKNOWN
    failure = asked.answer()
    assert isinstance(failure, ConnectionFailed)
    assert "here.test:9092" in str(failure)
    assert "Name or service not known" in str(failure)


@pytest.mark.parametrize("host", ["a" * 80, "a\0b"])
def test_what_no_name_can_be_is_an_answer_too(host):
    loop = Poller()
    names = HostResolver(poller=loop)
    told: list[LookupResult] = []
    assert dns_resolver.parse_numeric_address(HostLookup(host, 9092)) is None
    names.start_lookup(HostLookup(host, 9092), told.append)
    wait_for(lambda: bool(loop.poll(0.02) or told), "where is the answer")
    assert "cannot be resolved" in str(told[0])
    names.close()
    loop.close()


def test_more_look_ups_than_there_is_room_for_are_refused_at_once(asked):
    for port in range(1, 257):
        asked.names.start_lookup(HostLookup(AWAY.host, port), lambda _: None)
    asked.names.start_lookup(HERE, asked.told.append)
    assert "256 lookups are pending already" in str(asked.told)
    assert len(threads_of_resolvers()) == 4


def test_nobody_is_told_after_the_end_and_what_hangs_ends_with_its_look_up(asked):
    asked.names.start_lookup(AWAY, asked.told.append)
    wait_for(lambda: asked.looked_up, "where is the look-up")
    asked.names.close()
    assert threads_of_resolvers()
    asked.gate.set()
    wait_for(lambda: not threads_of_resolvers(), "its thread still runs")
    assert asked.told == []


BEFORE = OSError("before")
GONE = ConnectionFailed("away.test:9092", "the host name cannot be resolved: gone")


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


class Names(HostResolver):
    """Answers when `told` is called; `before` is what names stood for."""

    def __init__(self, *before: ResolvedAddress) -> None:
        self.before = list(before)
        self.waiting: list[OnLookupDone] = []

    def start_lookup(self, question: HostLookup, done: OnLookupDone) -> None:
        self.waiting.append(done)

    def cancel_lookup(self, question: HostLookup, done: OnLookupDone) -> None:
        self.waiting.remove(done)

    def get_cached_addresses(self, question: HostLookup) -> list[ResolvedAddress]:
        return self.before

    def get_fallback_lookup_result(self, question: HostLookup) -> LookupResult:
        return self.before or GONE

    def told(self, answer: LookupResult) -> None:
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(answer)


def dialled(host, port, names, **options):
    return ConnectAttempts(host, port, names=names, tls=None, buffer_bytes=None, **options)


def resolved(port, *, addresses, ends_s=10.0):
    """A dialling with so many times the same address; `ends_s` from zero."""
    found = dialled("127.0.0.1", port, Names())
    found.resolve_addresses(0.0, ends_s=ends_s, resolved=lambda: None)
    found._places.extend([found._places[0]] * (addresses - 1))
    return found


def tried(found, now_s):
    """Whether a connection is under way, and until when it may be."""
    begun = found.connect_to_next_address(now_s, BEFORE)
    assert isinstance(begun, Transport)
    begun.close()
    return found.attempt_ends_s


def test_each_address_has_a_share_of_the_time_and_the_last_one_the_rest(port):
    found = resolved(port, addresses=3)
    assert found.attempt_ends_s == math.inf
    assert [tried(found, now_s) for now_s in (0.0, 3.0, 6.0)] == [3.0, 6.0, 10.0]
    assert found.connect_to_next_address(9.0, BEFORE) is BEFORE


def test_of_many_addresses_all_are_tried_in_time(port):
    found = resolved(port, addresses=8, ends_s=8.0)
    assert [tried(found, float(second)) for second in range(8)] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_host_may_be_called_by_the_names_of_its_addresses(port, monkeypatch):
    """`resolve_canonical_bootstrap_servers_only`: one alias for many hosts."""
    called = []

    class Noted(Transport):
        def __init__(self, address, *, host, context, buffer_bytes):
            called.append(host)
            super().__init__(address, host=host, context=context, buffer_bytes=buffer_bytes)

    monkeypatch.setattr(dns_resolver, "Transport", Noted)
    for canonical in (False, True):
        names = Names()
        told: list[str] = []
        found = dialled("127.0.0.1", port, names, canonical=canonical)
        found.resolve_addresses(
            0.0, ends_s=10.0, resolved=lambda told=told: told.append("resolved")
        )
        names.told(dns_resolver.look_up_host(HostLookup("127.0.0.1", port, canonical)))
        assert told == ["resolved"]
        found.connect_to_next_address(0.0, BEFORE).close()
    assert called == ["127.0.0.1", socket.getnameinfo(("127.0.0.1", port), 0)[0]]
    assert called[1] != called[0]


def test_nothing_is_tried_once_the_time_is_over(port):
    assert resolved(port, addresses=2).connect_to_next_address(10.0, BEFORE) is BEFORE


def test_an_address_that_is_refused_at_once_is_passed_over(port):
    found = resolved(port, addresses=1)
    everybody = (socket.AF_INET, ("255.255.255.255", port))  # no TCP to them
    unreachable = ResolvedAddress(everybody, "everybody")
    found._places.appendleft(unreachable)
    assert tried(found, 0.0) == 10.0
    found._places.append(unreachable)
    failure = found.connect_to_next_address(1.0, BEFORE)
    assert isinstance(failure, OSError)
    assert failure is not BEFORE


def test_a_connection_that_stands_is_not_waited_for(port):
    found = resolved(port, addresses=2)
    tried(found, 0.0)
    found.on_connected()
    assert found.attempt_ends_s == math.inf


def test_a_name_that_does_not_resolve_is_said_so():
    names, told = Names(), []
    found = dialled("away.test", 9092, names)
    found.resolve_addresses(0.0, ends_s=10.0, resolved=lambda: told.append("resolved"))
    assert told == []
    names.told(GONE)
    assert told == ["resolved"]
    assert found.connect_to_next_address(0.1, BEFORE) is GONE


def test_who_knows_no_address_waits_for_the_resolver_until_the_end():
    names, told = Names(), []
    found = dialled("away.test", 9092, names)
    found.resolve_addresses(0.0, ends_s=10.0, resolved=lambda: told.append("resolved"))
    assert found.attempt_ends_s == 10.0
    assert found.connect_to_next_address(10.0, TimeoutError()) is GONE
    assert (names.waiting, told) == ([], [])


def test_who_knows_an_address_of_before_soon_goes_on_with_that(port):
    names, told = Names(ResolvedAddress((socket.AF_INET, ("127.0.0.1", port)), "here.test")), []
    found = dialled("here.test", port, names)
    found.resolve_addresses(0.0, ends_s=10.0, resolved=lambda: told.append("resolved"))
    assert found.attempt_ends_s == 2.0
    assert tried(found, 2.0) == 10.0
    assert (names.waiting, told) == ([], []), "an answer that comes late is for others"


def test_after_the_end_nobody_is_told_of_addresses(port):
    names, told = Names(), []
    found = dialled("here.test", port, names)
    found.resolve_addresses(0.0, ends_s=10.0, resolved=lambda: told.append("resolved"))
    found.close()
    found.close()
    assert (names.waiting, told) == ([], [])
