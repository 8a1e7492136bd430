from __future__ import annotations

import logging
import socket
import threading

import pytest

from connect_runtime.system import polling
from connect_runtime.wire.codec import failures
from connect_runtime.wire.connection import poller, resolver

AWAY = resolver.Question("away.test", 9092)
HERE = resolver.Question("here.test", 9092)
PLACES = [resolver.Place((socket.AF_INET, ("127.0.0.1", 9092)), "here.test")]
UNREACHABLE = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
UNKNOWN = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


class Asked:
    """A resolver whose look-ups are answered by `says`; "away.test" hangs until `gate` is set."""

    def __init__(self) -> None:
        self.poller = poller.Poller()
        self.gate = threading.Event()
        self.says: list[resolver.Place] | Exception = PLACES
        self.looked_up: list[resolver.Question] = []
        self.names = resolver.Resolver(poller=self.poller, look_up=self._look_up)
        self.told: list[resolver.Answer] = []

    def _look_up(self, question: resolver.Question) -> list[resolver.Place]:
        self.looked_up.append(question)
        if question.host == AWAY.host:
            assert self.gate.wait(20.0)
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    def answer(self, question: resolver.Question = HERE) -> resolver.Answer:
        """Ask, and turn until the answer is there."""
        self.told.clear()
        self.names.ask(question, self.told.append)
        assert not self.told, "`done` was called inside `ask`"
        return self.awaited()

    def awaited(self) -> resolver.Answer:
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
    assert polling.until(condition, timeout_s=10.0, interval_s=0.01), what


def threads_of_resolvers():
    return [each.name for each in threading.enumerate() if each.name.startswith("resolver-")]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_address_in_digits_is_looked_up_by_nobody(host):
    found = resolver.literal(resolver.Question(host, 9092))
    assert found is not None
    (place,) = found
    assert place.address[1][:2] == (host, 9092)
    assert place.name == host
    assert threads_of_resolvers() == []


@pytest.mark.parametrize(
    "question", [HERE, resolver.Question("127.0.0.1", 9092, canonical=True)], ids=str
)
def test_for_names_somebody_has_to_be_asked(question):
    assert resolver.literal(question) is None


def test_a_name_that_hangs_holds_up_no_other(asked):
    waiting: list[resolver.Answer] = []
    asked.names.ask(AWAY, waiting.append)
    assert asked.answer(HERE) == PLACES
    assert waiting == []
    asked.gate.set()
    wait_for(lambda: bool(asked.poller.poll(0.02) or waiting), "where is the late answer")
    assert waiting == [PLACES]


def test_a_name_under_way_is_asked_once_and_all_are_told_but_who_left(asked):
    told: list[str] = []
    waiting = [lambda _, who=who: told.append(who) for who in ("first", "second", "third")]
    for done in waiting:
        asked.names.ask(AWAY, done)
    asked.names.leave(AWAY, waiting[1])
    asked.gate.set()
    wait_for(lambda: bool(asked.poller.poll(0.02) or told), "where is the answer")
    assert told == ["first", "third"]
    assert asked.looked_up == [AWAY]


def test_while_no_server_answers_the_address_of_before_serves(asked, caplog):
    asked.says = UNREACHABLE
    assert "does not resolve: Temporary failure" in str(asked.answer())
    asked.says = PLACES
    assert asked.answer() == PLACES
    asked.says = UNREACHABLE
    with caplog.at_level(logging.WARNING):
        assert asked.answer() == asked.answer() == PLACES
    assert caplog.messages == [
        "here.test:9092: the resolver does not answer; going on with the address of before, "
        "127.0.0.1"
    ]


def test_a_name_that_is_gone_stands_for_nothing_any_more(asked):
    assert asked.answer() == PLACES
    asked.says = UNKNOWN
    failure = asked.answer()
    assert isinstance(failure, failures.ConnectionFailed)
    assert "here.test:9092" in str(failure)
    assert "Name or service not known" in str(failure)


@pytest.mark.parametrize("host", ["a" * 80, "a\0b"])
def test_what_no_name_can_be_is_an_answer_too(host):
    loop = poller.Poller()
    names = resolver.Resolver(poller=loop)
    told: list[resolver.Answer] = []
    assert resolver.literal(resolver.Question(host, 9092)) is None
    names.ask(resolver.Question(host, 9092), told.append)
    wait_for(lambda: bool(loop.poll(0.02) or told), "where is the answer")
    assert "does not resolve" in str(told[0])
    names.close()
    loop.close()


def test_more_look_ups_than_there_is_room_for_are_refused_at_once(asked):
    for port in range(1, 257):
        asked.names.ask(resolver.Question(AWAY.host, port), lambda _: None)
    asked.names.ask(HERE, asked.told.append)
    assert "256 others are being looked up" in str(asked.told)
    assert len(threads_of_resolvers()) == 4


def test_nobody_is_told_after_the_end_and_what_hangs_ends_with_its_look_up(asked):
    asked.names.ask(AWAY, asked.told.append)
    wait_for(lambda: asked.looked_up, "where is the look-up")
    asked.names.close()
    assert threads_of_resolvers()
    asked.gate.set()
    wait_for(lambda: not threads_of_resolvers(), "its thread still runs")
    assert asked.told == []
