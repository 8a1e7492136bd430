from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest

from connect_runtime.api import context
from connect_runtime.base import ids
from mm2.connectors.share import java_wait
from tests.fakes import plugin_contexts

TASK = ids.ConnectorTaskId("MirrorSourceConnector", 0)
PARTITION = ids.TopicPartition("t", 0)
RUN = context.OthersRun(worker_id="java:1", began_ms=1)
WITH_IT = [context.TaskGiven(config={"task.assigned.partitions": "t-0"}, at_ms=0)]


def runs(*others, known=True, **told):
    """By workers of Java, of tasks 0, 1, …, each with the partition, as far as that is `known`;
    None: not by them."""
    by_number = {number: each for number, each in enumerate(others) if each is not None}
    given = dict.fromkeys(by_number, WITH_IT) if known else {}
    return context.LastRuns(others=by_number, given=given, **told)


def java(began_ms=1, *, worker_id="java:1", **told):
    return context.OthersRun(worker_id=worker_id, began_ms=began_ms, **told)


@dataclass
class Told:
    """What the worker says, and a clock."""

    runs: context.LastRuns = field(default_factory=lambda: runs(RUN))
    clock: plugin_contexts.Clock = field(default_factory=plugin_contexts.Clock)
    memory: java_wait.Memory = field(default_factory=java_wait.Memory)

    def wait(self, task=TASK, *, skipped=False, producer=None):
        return java_wait.JavaWait(
            java_wait.WaitingTask(flow="a->b", task=task, partitions=[PARTITION]),
            runs=lambda: self.runs,
            producer=producer or {},
            skipped=skipped,
            clock=self.clock,
            memory=self.memory,
        )


@pytest.fixture
def told():
    return Told()


def test_it_waits_as_long_as_the_producer_tries_and_says_for_whom_and_how_to_skip_it(told):
    wait = told.wait()
    reason = wait.reason(10.0)
    assert "java:1" in reason
    assert "--java-stopped-cleanly" in reason
    assert "java.stopped.cleanly=true" in reason
    assert wait.left_s(70.0) == 60.0
    assert wait.reason(129.0) == reason
    assert wait.reason(130.0) == ""
    assert wait.left_s(130.0) == 0.0


def test_a_producer_that_tries_for_less_is_waited_for_less(told):
    wait = told.wait(producer={"delivery.timeout.ms": "4000"})
    assert wait.reason(0.0)
    assert wait.reason(4.0) == ""


def test_a_task_that_is_started_again_waits_for_the_rest(told):
    assert told.wait().reason(0.0)
    again = told.wait()
    assert again.reason(100.0)
    assert again.left_s(100.0) == 20.0
    assert told.wait(ids.ConnectorTaskId(TASK.connector, 0)).reason(120.0) == ""


def test_a_run_that_began_since_with_its_partitions_is_waited_for_anew(told):
    assert told.wait().reason(0.0)
    told.runs = runs(java(2))
    assert told.wait().left_s(200.0) == 0.0
    assert told.wait().reason(200.0)


def test_the_words_are_those_of_whom_it_waits_for_now(told):
    wait = told.wait()
    assert "(java:1) ran partitions" in wait.reason(0.0)
    told.runs = runs(java(2, worker_id="java:2"))
    assert "(java:2) ran partitions" in wait.reason(60.0)
    assert wait.left_s(60.0) == 120.0


def test_it_waits_for_all_that_have_not_ended_and_names_them(told):
    told.runs = runs(java(), java(2, worker_id="java:2"))
    wait = told.wait()
    assert "(java:1, java:2)" in wait.reason(0.0)
    told.runs = runs(java(ended_ms=3), java(2, worker_id="java:2"))
    assert "(java:2)" in wait.reason(60.0)
    assert wait.left_s(60.0) == 60.0


def restarting(number):
    """A worker of Java beside ours; what its task had is not known."""
    return runs(None, java(number), known=False)


def test_a_worker_of_java_that_starts_again_and_again_is_waited_for_once(told):
    told.runs = restarting(1)
    wait = told.wait()
    assert "may have run partitions" in wait.reason(0.0)
    for now_s in range(10, 60, 10):
        told.runs = restarting(now_s)
        assert wait.reason(float(now_s)) == "", "the run that it waited for is over"
    told.runs = restarting(1)
    assert told.wait().left_s(60.0) == 0.0
    again = told.wait()
    assert again.reason(60.0)
    assert again.left_s(60.0) == 60.0, "as long as from the beginning"


def test_what_is_no_longer_known_of_a_run_makes_no_wait_shorter(told):
    wait = told.wait()
    assert wait.reason(0.0)
    told.runs = runs(RUN, known=False)
    assert wait.left_s(60.0) == 60.0
    assert wait.reason(60.0)
    assert wait.reason(120.0) == ""


def test_whoever_began_after_a_copy_is_waited_for_even_if_it_is_not_known_what_it_had(told):
    told.runs = restarting(1)
    wait = told.wait()
    assert wait.reason(0.0)
    assert wait.reason(120.0) == ""
    wait.observe()
    assert told.wait().reason(121.0) == "", "that one was waited for"
    told.runs = restarting(2)
    assert told.wait().reason(122.0)


def test_an_end_that_comes_to_be_known_ends_the_wait(told):
    wait = told.wait()
    assert wait.reason(0.0)
    told.runs = runs(java(ended_ms=9))
    assert wait.reason(0.1)  # it is not looked at each turn
    assert wait.reason(0.6) == ""


def test_who_is_told_that_java_has_ended_does_not_wait(told):
    assert told.wait(skipped=True).reason(0.0) == ""
    wait = told.wait()
    assert wait.reason(0.0)
    wait.skipped = True
    assert wait.reason(1.0) == ""


def test_what_takes_milliseconds_is_no_news(told, caplog):
    caplog.set_level(logging.INFO)
    wait = told.wait()
    wait.reason(0.0)
    told.runs = context.LastRuns()
    wait.reason(1.0)
    assert caplog.messages == []
    told.runs = runs(RUN)
    for now_s in (2.0, 3.0, 4.0):
        wait.reason(now_s)
    assert [each for each in caplog.messages if "never said" in each] == caplog.messages
    assert len(caplog.messages) == 1
    wait.reason(200.0)
    assert len(caplog.messages) == 2


def test_workers_of_java_beside_ours_are_told_of_while_they_are_there(told, caplog):
    caplog.set_level(logging.INFO)
    told.runs = runs(None, RUN, ours={0: 1})
    wait = told.wait()
    wait.observe()
    told.runs = runs(ours={0: 1, 1: 1})
    wait.observe()
    assert caplog.messages == [], "ours was about to run the other"
    told.runs = runs(None, RUN, ours={0: 1})
    for _ in range(3):
        wait.observe()
    assert "(1)" in wait.beside
    told.runs = runs(ours={0: 1, 1: 1})
    wait.observe()
    assert wait.beside == ""
    assert len(caplog.messages) == 2
