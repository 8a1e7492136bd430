"""Whom a task waits for: by its partitions, whatever number they were under."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest

from connect_runtime.api.plugin_context import (
    JavaWorkerTaskRun,
    LastTaskRuns,
    LeaderlessPeriod,
    PublishedTaskConfig,
)
from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from mm2.connectors import java_worker_handover_wait
from mm2.connectors.java_worker_handover_wait import (
    HandoverQuery,
    HandoverWaitRegistry,
    JavaHandover,
    JavaTaskRun,
    WaitingTask,
)
from tests.fakes.plugin_contexts import Clock

TASK = ConnectorTaskId("MirrorSourceConnector", 0)
PARTITION = TopicPartition("t", 0)
RUN = JavaWorkerTaskRun(worker_id="java:1", started_ms=1)
WITH_IT = [PublishedTaskConfig(config={"task.assigned.partitions": "t-0"}, published_ms=0)]


def runs(*others, known=True, **told):
    """By workers of Java, of tasks 0, 1, …, each with the partition, as far as that is `known`;
    None: not by them."""
    by_number = {number: each for number, each in enumerate(others) if each is not None}
    given = dict.fromkeys(by_number, WITH_IT) if known else {}
    return LastTaskRuns(foreign=by_number, configs=given, **told)


def java(began_ms=1, *, worker_id="java:1", **told):
    return JavaWorkerTaskRun(worker_id=worker_id, started_ms=began_ms, **told)


@dataclass
class Told:
    """What the worker says, and a clock."""

    runs: LastTaskRuns = field(default_factory=lambda: runs(RUN))
    clock: Clock = field(default_factory=Clock)
    memory: HandoverWaitRegistry = field(default_factory=HandoverWaitRegistry)

    def wait(self, task=TASK, *, skipped=False, producer=None):
        return JavaHandover(
            WaitingTask(flow="a->b", task=task, partitions=[PARTITION]),
            runs=lambda: self.runs,
            producer=producer or {},
            skipped=skipped,
            clock=self.clock,
            waits=self.memory,
        )


@pytest.fixture
def told():
    return Told()


def test_it_waits_as_long_as_the_producer_tries_and_says_for_whom_and_how_to_skip_it(told):
    wait = told.wait()
    reason = wait.get_wait_reason(10.0)
    assert "java:1" in reason
    assert "--java-stopped-cleanly" in reason
    assert "java.stopped.cleanly=true" in reason
    assert wait.compute_remaining_s(70.0) == 60.0
    assert wait.get_wait_reason(129.0) == reason
    assert wait.get_wait_reason(130.0) == ""
    assert wait.compute_remaining_s(130.0) == 0.0


def test_a_producer_that_tries_for_less_is_waited_for_less(told):
    wait = told.wait(producer={"delivery.timeout.ms": "4000"})
    assert wait.get_wait_reason(0.0)
    assert wait.get_wait_reason(4.0) == ""


def test_a_task_that_is_started_again_waits_for_the_rest(told):
    assert told.wait().get_wait_reason(0.0)
    again = told.wait()
    assert again.get_wait_reason(100.0)
    assert again.compute_remaining_s(100.0) == 20.0
    assert told.wait(ConnectorTaskId(TASK.connector, 0)).get_wait_reason(120.0) == ""


def test_a_run_that_began_since_with_its_partitions_is_waited_for_anew(told):
    assert told.wait().get_wait_reason(0.0)
    told.runs = runs(java(2))
    assert told.wait().compute_remaining_s(200.0) == 0.0
    assert told.wait().get_wait_reason(200.0)


def test_the_words_are_those_of_whom_it_waits_for_now(told):
    wait = told.wait()
    assert "(java:1) ran partitions" in wait.get_wait_reason(0.0)
    told.runs = runs(java(2, worker_id="java:2"))
    assert "(java:2) ran partitions" in wait.get_wait_reason(60.0)
    assert wait.compute_remaining_s(60.0) == 120.0


def test_it_waits_for_all_that_have_not_ended_and_names_them(told):
    told.runs = runs(java(), java(2, worker_id="java:2"))
    wait = told.wait()
    assert "(java:1, java:2)" in wait.get_wait_reason(0.0)
    told.runs = runs(java(ended_ms=3), java(2, worker_id="java:2"))
    assert "(java:2)" in wait.get_wait_reason(60.0)
    assert wait.compute_remaining_s(60.0) == 60.0


def restarting(number):
    """A worker of Java beside ours; what its task had is not known."""
    return runs(None, java(number), known=False)


def test_a_worker_of_java_that_starts_again_and_again_is_waited_for_once(told):
    told.runs = restarting(1)
    wait = told.wait()
    assert "may have run partitions" in wait.get_wait_reason(0.0)
    for now_s in range(10, 60, 10):
        told.runs = restarting(now_s)
        assert wait.get_wait_reason(float(now_s)) == "", "the run that it waited for is over"
    told.runs = restarting(1)
    assert told.wait().compute_remaining_s(60.0) == 0.0
    again = told.wait()
    assert again.get_wait_reason(60.0)
    assert again.compute_remaining_s(60.0) == 60.0, "as long as from the beginning"


def test_what_is_no_longer_known_of_a_run_makes_no_wait_shorter(told):
    wait = told.wait()
    assert wait.get_wait_reason(0.0)
    told.runs = runs(RUN, known=False)
    assert wait.compute_remaining_s(60.0) == 60.0
    assert wait.get_wait_reason(60.0)
    assert wait.get_wait_reason(120.0) == ""


def test_whoever_began_after_a_copy_is_waited_for_even_if_it_is_not_known_what_it_had(told):
    told.runs = restarting(1)
    wait = told.wait()
    assert wait.get_wait_reason(0.0)
    assert wait.get_wait_reason(120.0) == ""
    wait.update_java_tasks_warning()
    assert told.wait().get_wait_reason(121.0) == "", "that one was waited for"
    told.runs = restarting(2)
    assert told.wait().get_wait_reason(122.0)


def test_an_end_that_comes_to_be_known_ends_the_wait(told):
    wait = told.wait()
    assert wait.get_wait_reason(0.0)
    told.runs = runs(java(ended_ms=9))
    assert wait.get_wait_reason(0.1)  # it is not looked at each turn
    assert wait.get_wait_reason(0.6) == ""


def test_who_is_told_that_java_has_ended_does_not_wait(told):
    assert told.wait(skipped=True).get_wait_reason(0.0) == ""
    wait = told.wait()
    assert wait.get_wait_reason(0.0)
    wait.skipped = True
    assert wait.get_wait_reason(1.0) == ""


def test_what_takes_milliseconds_is_no_news(told, caplog):
    caplog.set_level(logging.INFO)
    wait = told.wait()
    wait.get_wait_reason(0.0)
    told.runs = LastTaskRuns()
    wait.get_wait_reason(1.0)
    assert caplog.messages == []
    told.runs = runs(RUN)
    for now_s in (2.0, 3.0, 4.0):
        wait.get_wait_reason(now_s)
    assert [each for each in caplog.messages if "never reported" in each] == caplog.messages
    assert len(caplog.messages) == 1
    wait.get_wait_reason(200.0)
    assert len(caplog.messages) == 2


def test_workers_of_java_beside_ours_are_told_of_while_they_are_there(told, caplog):
    caplog.set_level(logging.INFO)
    told.runs = runs(None, RUN, own_start_ms={0: 1})
    wait = told.wait()
    wait.update_java_tasks_warning()
    told.runs = runs(own_start_ms={0: 1, 1: 1})
    wait.update_java_tasks_warning()
    assert caplog.messages == [], "ours was about to run the other"
    told.runs = runs(None, RUN, own_start_ms={0: 1})
    for _ in range(3):
        wait.update_java_tasks_warning()
    assert "(1)" in wait.warning
    told.runs = runs(own_start_ms={0: 1, 1: 1})
    wait.update_java_tasks_warning()
    assert wait.warning == ""
    assert len(caplog.messages) == 2


FOR_S = 120.0
HOUR_MS = 3_600_000
NOW_MS = 10 * HOUR_MS


def run(began_ms=HOUR_MS, **given):
    return JavaWorkerTaskRun(**{"worker_id": "java", "started_ms": began_ms, **given})


def given(*commits):
    """What tasks were configured with: (when, partitions of task 0, of task 1, …)."""
    found: dict[int, list[PublishedTaskConfig]] = {}
    for at_ms, *shares in commits:
        for number, share in enumerate(shares):
            each = PublishedTaskConfig(
                config={"task.assigned.partitions": share, "null": None}, published_ms=at_ms
            )
            found.setdefault(number, []).append(each)
    return found


BEGINNING = given((0, "a-0", "b-0"))
"""Task 0 has a-0, task 1 has b-0, since ever."""


def left(partitions="a-0", **told):
    runs = LastTaskRuns(**{"configs": BEGINNING, **told})
    topics = [each.rpartition("-") for each in partitions.split(",")]
    asks = HandoverQuery(
        partitions=[TopicPartition(topic, int(number)) for topic, _, number in topics],
        delivery_timeout_s=FOR_S,
        wall_ms=NOW_MS,
    )
    return java_worker_handover_wait.find_unfinished_java_runs(runs, asks)


def open_run(began_ms=HOUR_MS, **told):
    return {JavaTaskRun(**{"worker_id": "java", "started_ms": began_ms, **told})}


def test_a_group_that_java_was_never_in():
    assert left() == set()
    assert left(own_start_ms={0: HOUR_MS}) == set()


def test_who_never_said_that_it_ended_is_waited_for():
    assert left(foreign={0: run()}) == open_run()


def test_who_ended_in_order_is_not():
    assert left(foreign={0: run(ended_ms=HOUR_MS + 1)}) == set()


@pytest.mark.parametrize(("lasted_ms", "waits"), [(119_999, True), (120_000, False)])
def test_whoever_it_took_the_task_from_may_still_send(lasted_ms, waits):
    ended_ms = NOW_MS - 60_000
    taken = run(ended_ms - lasted_ms, ended_ms=ended_ms, overlaps=True)
    assert left(foreign={0: taken}) == (open_run(ended_ms - lasted_ms) if waits else set())


def test_what_ended_long_ago_left_nothing_of_whoever_it_took_the_task_from():
    assert left(foreign={0: run(ended_ms=HOUR_MS + 1, overlaps=True)}) == set()


def test_tasks_that_java_has_are_not_waited_for_by_those_with_other_partitions():
    assert left(own_start_ms={0: 2 * HOUR_MS}, foreign={1: run()}) == set()
    assert left(foreign={0: run(ended_ms=2 * HOUR_MS), 1: run()}) == set()
    assert left("c-0", foreign={0: run(), 1: run()}) == set()


MOVED = given((0, "a-0", "b-0"), (3 * HOUR_MS, "a-0,b-0", "c-0"))
"""Then b-0 moves from task 1 to task 0."""


@pytest.mark.parametrize(
    "told",
    [
        {"own_start_ms": {0: 2 * HOUR_MS}},
        {"foreign": {0: run(ended_ms=2 * HOUR_MS)}},
        {},
    ],
    ids=["ran by ours", "ended in order", "nobody ran it"],
)
def test_a_partition_from_another_task_is_waited_for_however_its_new_task_was_run(told):
    others = {1: run(), **told.get("others", {})}
    both = {**told, "foreign": others, "configs": MOVED}
    assert left("a-0,b-0", **both) == open_run()
    assert left("a-0", **both) == set(), "its own is not"


def test_what_a_task_of_ours_has_waited_for_is_ours():
    settled = {"configs": MOVED, "foreign": {1: run()}, "own_start_ms": {0: 4 * HOUR_MS}}
    assert left("a-0,b-0", **settled) == set()


def test_what_java_took_back_since_is_waited_for_again():
    back = given((0, "a-0", "b-0"), (3 * HOUR_MS, "", "a-0,b-0"), (5 * HOUR_MS, "a-0", "b-0"))
    told = {"configs": back, "own_start_ms": {0: 2 * HOUR_MS}, "foreign": {1: run(4 * HOUR_MS)}}
    assert left("a-0", **told) == open_run(4 * HOUR_MS)


def test_a_worker_of_java_that_began_with_what_is_configured_now_has_nothing_of_ours():
    """However often it begins again."""
    told = {"configs": MOVED, "own_start_ms": {0: 2 * HOUR_MS}}
    assert left("a-0,b-0", foreign={1: run(3 * HOUR_MS)}, **told) == set()


def test_whom_a_run_overlaps_may_have_had_what_its_task_had_before():
    told = {"configs": MOVED, "foreign": {1: run(3 * HOUR_MS, overlaps=True)}}
    assert left("a-0,b-0", **told) == open_run(3 * HOUR_MS)


@pytest.mark.parametrize(
    "lost",
    [
        {},
        given((2 * HOUR_MS, "x-0", "x-1")),
        given((-1, "x-0", "x-1")),
        given((0, "no partition", "none")),
    ],
    ids=["nothing", "compacted away", "no time", "unreadable"],
)
def test_what_a_run_had_may_not_be_known_any_more(lost):
    found = left("a-0", configs=lost, foreign={1: run()}, own_start_ms={0: 2 * HOUR_MS})
    assert found == open_run()
    assert [each.has_known_partitions for each in found] == [False]
    assert [each.has_known_partitions for each in left("b-0", foreign={1: run()})] == [True]


def test_where_it_is_not_known_what_is_ours_since_is_ours():
    told = {0: BEGINNING[0]}
    assert left(configs=told, foreign={1: run()}, own_start_ms={0: 2 * HOUR_MS}) == set()


def test_all_are_waited_for():
    found = left("a-0,b-0", foreign={0: run(), 1: run(2 * HOUR_MS)})
    assert found == open_run() | open_run(2 * HOUR_MS)


@pytest.mark.parametrize(("ago_s", "waits"), [(719, True), (720, False)])
def test_a_task_that_is_removed_is_waited_for_until_that_is_long_ago(ago_s, waits):
    removed = run(removed_ms=NOW_MS - ago_s * 1000)
    assert left("b-0", foreign={1: removed}) == (open_run() if waits else set())


@pytest.mark.parametrize(
    ("from_h", "to_h", "waits"),
    [
        (2, 50, False),  # days later
        (2, 2.1, True),  # clocks may differ
        (1, 50, True),  # it began after the last leader that is known of
    ],
)
def test_a_group_without_a_leader_for_long_is_gone(from_h, to_h, waits):
    quiet = LeaderlessPeriod(from_ms=from_h * HOUR_MS, to_ms=round(to_h * HOUR_MS))
    assert left(foreign={0: run()}, leaderless_period=quiet) == (open_run() if waits else set())


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, 120.0), ("2147483647", 120.0), ("4000", 4.0), (" 600000 ", 600.0), ("soon", 120.0)],
)
def test_how_long_a_producer_tries(text, expected):
    props = {} if text is None else {java_worker_handover_wait.DELIVERY_TIMEOUT_CONFIG: text}
    assert java_worker_handover_wait.read_delivery_timeout_s(props) == expected


def test_java_shares_the_work_while_a_run_has_not_ended():
    others = {2: run(), 0: run(), 1: run(ended_ms=2 * HOUR_MS), 4: run(removed_ms=NOW_MS)}

    def shared(number, quiet=None):
        runs = LastTaskRuns(foreign=others, leaderless_period=quiet)
        return java_worker_handover_wait.find_tasks_run_by_java(
            runs, number, delivery_timeout_s=FOR_S, wall_ms=NOW_MS
        )

    assert shared(3) == (0, 2)
    assert shared(2) == (0,)
    days = LeaderlessPeriod(from_ms=2 * HOUR_MS, to_ms=50 * HOUR_MS)
    assert shared(3, days) == (), "nobody was in the group before ours"
