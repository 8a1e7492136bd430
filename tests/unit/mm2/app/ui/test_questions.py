from __future__ import annotations

import dataclasses
import json
import threading

import pytest

from mm2.app.ui import command_answers, questions
from mm2.core import flows
from tests.fakes import plugin_contexts
from tests.support import eventually

FLOW = flows.Flow(source="east", target="west")
RECEIPTS = questions.receipts(FLOW, "c.yaml")
NOTHING = json.dumps({"version": 1, "receipts": []}).encode()
SOON_S = 20.0


class Commands:
    """Commands that answer when they are let."""

    def __init__(self):
        self.asked = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.was_gone = False
        self.says: bytes | Exception = NOTHING

    def run(self, words, timeout_s, gone):
        self.asked.append((tuple(words), timeout_s))
        eventually.eventually(lambda: self.may_answer.is_set() or gone(), SOON_S)
        self.was_gone = gone()
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


@pytest.fixture
def commands():
    made = Commands()
    yield made
    made.may_answer.set()


@pytest.fixture
def clock():
    return plugin_contexts.Context().clock


@pytest.fixture
def asked(commands, clock):
    made = questions.Questions(commands.run, clock=clock)
    yield made
    commands.may_answer.set()
    made.stop()


def settled(asked, question=RECEIPTS):
    eventually.eventually(lambda: not asked.known(question).running, SOON_S)
    return asked.known(question)


def test_the_questions_are_mm2s_own_commands():
    assert RECEIPTS.words == ("receipts", "c.yaml", "--flow", "east->west", "--json")
    assert questions.plan(FLOW, "c.yaml").words == (
        *("failover", "--from", "east", "--to", "west", "--config", "c.yaml"),
        *("--look", "60", "--json"),
    )
    assert questions.plan(FLOW, "c.yaml").timeout_s > 60.0, "its look comes first"


def test_whoever_asks_waits_for_nobody_and_finds_the_answer_later(asked, commands, clock):
    commands.may_answer.clear()
    assert asked.known(RECEIPTS) == questions.Answer()
    assert asked.ask(RECEIPTS).running
    assert asked.ask(RECEIPTS).running, "it runs already"
    assert asked.known(RECEIPTS).found is None
    commands.may_answer.set()
    found = settled(asked)
    assert found.found == command_answers.receipts({"version": 1, "receipts": []})
    assert (found.at_ms, found.error) == (clock.wall_ms(), "")
    assert [words for words, _ in commands.asked] == [RECEIPTS.words]


def test_the_same_is_not_asked_again_too_soon_after_its_end(asked, commands, clock):
    """However long it takes: it does not run all the time, whoever looks."""
    commands.may_answer.clear()
    asked.ask(RECEIPTS)
    eventually.eventually(lambda: commands.asked, SOON_S)
    clock.now += 5 * questions.RECEIPTS_EVERY_S
    commands.may_answer.set()
    assert settled(asked).took_s == 5 * questions.RECEIPTS_EVERY_S
    clock.now += questions.RECEIPTS_EVERY_S - 0.1
    assert not asked.ask(RECEIPTS).running
    clock.now += 0.1
    assert asked.ask(RECEIPTS).running
    settled(asked)
    assert len(commands.asked) == 2


@pytest.mark.parametrize("raised", [RecursionError("too deep"), OSError("no"), MemoryError()])
def test_whatever_goes_wrong_it_is_asked_again_later(asked, commands, clock, raised):
    commands.says = raised
    asked.ask(RECEIPTS)
    assert repr(raised) in settled(asked).error
    commands.says = NOTHING
    clock.now += questions.RECEIPTS_EVERY_S
    assert asked.ask(RECEIPTS).running
    assert settled(asked).error == ""


def test_what_was_found_stays_beside_why_nothing_newer_was(asked, commands, clock):
    asked.ask(RECEIPTS)
    first = settled(asked)
    commands.says = questions.CommandError("mm2 receipts gave no answer within 30 s")
    clock.now += 100
    clock.wall += 100_000
    asked.ask(RECEIPTS)
    second = settled(asked)
    assert (second.found, second.at_ms) == (first.found, first.at_ms)
    assert second.error == "mm2 receipts gave no answer within 30 s"
    told = questions.as_json(second)
    assert told["found_ms"] == first.at_ms
    assert (told["running"], told["error"]) == (False, second.error)


@pytest.mark.parametrize(
    "says", [b"oops", b"[]", b"{}", b'{"version": 2}', b'{"version": 1, "receipts": 3}']
)
def test_what_is_no_answer_is_told_as_such(asked, commands, says):
    commands.says = says
    asked.ask(RECEIPTS)
    assert settled(asked).error.startswith("mm2 receipts c.yaml --flow 'east->west' --json: no us")


def test_one_command_runs_at_a_time_and_only_so_many_wait(asked, commands):
    commands.may_answer.clear()
    others = [
        dataclasses.replace(RECEIPTS, words=("receipts", str(number)))
        for number in range(questions.WAITING_MAX + 3)
    ]
    asked.ask(RECEIPTS)
    eventually.eventually(lambda: commands.asked, SOON_S)
    answers = [asked.ask(each) for each in others]
    assert len(commands.asked) == 1
    refused = [each for each in answers if not each.running]
    assert len(refused) == 3
    assert all("try again later" in each.error for each in refused)
    commands.may_answer.set()
    for each in others:
        settled(asked, each)
    assert len(commands.asked) == 1 + questions.WAITING_MAX


def test_a_command_is_told_when_nobody_waits_for_it_any_more(asked, commands):
    commands.may_answer.clear()
    asked.ask(RECEIPTS)
    eventually.eventually(lambda: commands.asked, SOON_S)
    asked.stop()
    assert commands.was_gone
    assert "is stopping" in asked.ask(questions.plan(FLOW, "c.yaml")).error
