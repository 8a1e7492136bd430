from __future__ import annotations

import io

import pytest
from rich import console

from mm2.config import pause_and_throttle_overrides
from mm2.config.pause_and_throttle_overrides import OperatorOverrides
from mm2.connectors import status_registry
from mm2.connectors.status_registry import FlowState
from mm2.status import live_flow_table, topic_rows
from mm2.status.catch_up_progress import CatchUpSnapshot, CatchUpState, CatchUpTracker
from mm2.status.live_flow_table import LiveTableContent
from mm2.status.topic_rows import CopyRates, LagTotal
from tests.support import statuses

NOW_MS = 1_700_000_000_000
TaskState = status_registry.TaskState


def make(*flows):
    return topic_rows.make_overview(flows, CopyRates(), wall_ms=NOW_MS, engine_ready=True)


def drawn(frame: LiveTableContent, *, height: int = 40, width: int = 160) -> str:
    file = io.StringIO()
    out = console.Console(file=file, width=width, height=height, color_system=None)
    out.print(live_flow_table.render_table(frame, width=width, height=height))
    return file.getvalue()


def topics(number: int, **fields):
    return [statuses.partition(f"topic-{each:03}", **fields) for each in range(number)]


def test_all_topics_in_order_of_names_when_there_is_room():
    rows = make(statuses.flow(*topics(5))).topics
    chosen = live_flow_table.select_rows(rows, 5)
    assert [each.topic for each in chosen.rows] == [f"topic-{each:03}" for each in range(5)]
    assert chosen.hidden == 0


def test_the_worst_topics_when_there_is_not():
    bad = statuses.partition("topic-150", phase="halted", reason="why")
    behind = statuses.partition("topic-170", copied_to=0, source_end=10**6)
    rest = [each for each in topics(200) if each.partition.topic not in {"topic-150", "topic-170"}]
    chosen = live_flow_table.select_rows(make(statuses.flow(*rest, bad, behind)).topics, 10)
    assert [each.topic for each in chosen.rows[:3]] == ["topic-150", "topic-170", "topic-000"]
    assert (len(chosen.rows), chosen.hidden) == (10, 190)


@pytest.mark.parametrize("height", [5, 24, 50])
@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("with_progress", [False, True])
def test_200_topics_fit_into_the_terminal(height, width, with_progress):
    snapshot = CatchUpTracker().observe([statuses.flow(*topics(200))], 0.0)
    stopped = statuses.partition("bad", phase="halted", reason="it is broken. " * 20)
    frame = LiveTableContent(
        overview=make(statuses.flow(*topics(200), stopped), statuses.flow(name="west->east")),
        notes=("starting Spark",),
        progress=snapshot if with_progress else None,
    )
    lines = drawn(frame, height=height, width=width).splitlines()
    assert len(lines) <= max(height, live_flow_table.TABLE_ROWS_MIN + 16)
    assert any("more topics" in line for line in lines)


def test_a_row_shows_what_the_topic_does():
    copied = statuses.partition(
        "orders",
        copied_to=10,
        source_end=1_244,
        oldest_uncopied_ms=NOW_MS - 2_500,
        transactional=True,
    )
    table = drawn(LiveTableContent(overview=make(statuses.flow(copied))))
    (line,) = [each for each in table.splitlines() if each.startswith("orders")]
    assert line.split() == ["orders", "1", "0", "0.0", "1,234", "2.5", "s", "in", "transactions",
                            "COPYING"]  # fmt: skip


def test_unknown_lags_are_dashes_and_incomplete_ones_lower_bounds():
    lag = LagTotal(records=None, seconds=None, complete=False)
    assert (live_flow_table.format_lag_records(lag), live_flow_table.format_lag_seconds(lag)) == (
        "-",
        "-",
    )
    lag = LagTotal(records=5, seconds=1.0, complete=False)
    assert (live_flow_table.format_lag_records(lag), live_flow_table.format_lag_seconds(lag)) == (
        ">5",
        ">1.0 s",
    )


def test_the_flow_column_is_there_only_for_several_flows():
    one = statuses.flow(statuses.partition())
    assert "FLOW" not in drawn(LiveTableContent(overview=make(one)))
    two = statuses.flow(statuses.partition(), name="west->east")
    assert "FLOW" in drawn(LiveTableContent(overview=make(one, two)))


def test_reasons_are_told_in_full_below_and_once_per_topic_and_cause():
    long = "the checksum of the batch (1024 bytes) does not match. " * 8
    stopped = [
        statuses.partition("orders", number, phase="halted", cause="corrupt-batch", reason=long)
        for number in range(3)
    ]
    text = " ".join(drawn(LiveTableContent(overview=make(statuses.flow(*stopped)))).split())
    assert text.count("east->west: orders-0: " + long.strip()) == 1
    assert "(and 2 more partitions)" in text
    assert "HALTED" in text


def test_names_from_the_cluster_are_not_markup():
    text = drawn(LiveTableContent(overview=make(statuses.flow(statuses.partition("[red]x[/red]")))))
    assert "[red]x[/red]" in text


def flow_line(*args, **fields) -> str:
    return live_flow_table.describe_flow(make(statuses.flow(*args, **fields)).flows[0])


SOURCE_LOST = "source east unreachable since 22:03:28Z: connection refused (e:1)"


@pytest.mark.parametrize(
    ("partitions", "end"),
    [
        (
            [statuses.partition(phase="waiting", source_end=-1)],
            f"0.0 MB/s, lag unknown: {SOURCE_LOST}",
        ),
        (
            [statuses.partition(copied_to=3, source_end=8, oldest_uncopied_ms=NOW_MS - 2_000)],
            f"0.0 MB/s, lag 5 records, 2.0 s; {SOURCE_LOST}",
        ),
        ([], f"RUNNING, 1 task running, {SOURCE_LOST}"),
    ],
)
def test_an_unreachable_cluster_is_why_the_lag_is_unknown(partitions, end):
    (row,) = topic_rows.make_overview(
        [statuses.flow(*partitions)],
        CopyRates(),
        wall_ms=NOW_MS,
        engine_ready=True,
        unreachable={"east->west": SOURCE_LOST, "west->east": "x"},
    ).flows
    assert live_flow_table.describe_flow(row).endswith(end)


def test_a_task_that_waits_is_never_shown_as_running():
    line = flow_line(
        statuses.partition(),
        tasks=[
            statuses.task(0),
            statuses.task(1, TaskState.WAITING_FOR_SLOT),
            statuses.task(2, TaskState.WAITING_FOR_SLOT),
        ],
        slots_missing=2,
    )
    assert "1 task running" in line
    assert "2 tasks waiting for a slot" in line
    assert "needs 2 more Spark slots" in line


def test_while_spark_starts_nobody_waits_for_a_slot():
    flow = statuses.flow(
        statuses.partition(), tasks=[statuses.task(0, TaskState.WAITING_FOR_SLOT)], slots_missing=1
    )
    seen = topic_rows.make_overview([flow], CopyRates(), wall_ms=NOW_MS, engine_ready=False)
    line = live_flow_table.describe_flow(seen.flows[0])
    assert "1 task waiting for Spark to start" in line
    assert "slot" not in line


def test_a_flow_that_is_planned_tells_what_it_waits_for():
    line = flow_line(state=FlowState.PLANNING, reason="cluster east: nobody answers")
    assert line == "PLANNING: cluster east: nobody answers"


def test_a_flow_whose_partitions_are_elsewhere_is_not_empty():
    assert flow_line(elsewhere=2) == "RUNNING, 1 task running, 2 partitions, none of them here"
    assert flow_line() == "RUNNING, 1 task running, no topic matches"


def test_a_failed_flow_tells_why_and_how_far_it_came():
    line = flow_line(
        statuses.partition(records=1_200, bytes=3_000_000),
        state=FlowState.FAILED,
        reason="fenced by another owner",
    )
    assert line == "FAILED: fenced by another owner, 1,200 records (3.0 MB) replicated"


def test_partitions_in_error_are_counted():
    assert "2 partitions (1 halted)" in flow_line(
        statuses.partition("orders", 0), statuses.partition("orders", 1, phase="halted")
    )


@pytest.mark.parametrize(
    ("transactional", "opened", "words"),
    [
        (0, 0, "pass-through"),
        (1, 0, "pass-through, 1 in transactions"),
        (2, 0, "in transactions"),
        (0, 1, "pass-through, 1 re-encoded"),
        (1, 2, "re-encoded, 1 in transactions"),
        (2, 2, "re-encoded, in transactions"),
    ],
)
def test_paths(transactional, opened, words):
    (row,) = make(
        statuses.flow(
            *(
                statuses.partition(
                    "a",
                    number,
                    transactional=number < transactional,
                    reencode_reason="compaction left gaps in the batch" if number < opened else "",
                )
                for number in range(2)
            )
        )
    ).topics
    assert live_flow_table.describe_replication_path(row) == words


def test_progress_in_words():
    snapshot = CatchUpSnapshot(
        verdict=CatchUpState.COPYING,
        total=2_000,
        copied=1_250,
        partitions=8,
        done=3,
        eta_s=12.4,
    )
    words = "62 %, 3 of 8 partitions, 1,250 of 2,000 records, 12 s left"
    assert live_flow_table.describe_progress(snapshot) == words
    assert words in drawn(LiveTableContent(overview=make(), progress=snapshot))


def test_a_paused_flow_and_its_rates_are_shown():
    holds = OperatorOverrides(
        paused=True,
        budgets=pause_and_throttle_overrides.parse_overrides(
            {"throttle": "5MB"}, is_paused=False
        ).budgets,
    )
    made = make(statuses.flow(statuses.partition(), holds=holds))
    (line,) = map(live_flow_table.describe_flow, made.flows)
    assert line.startswith("RUNNING, paused, throttled to 5.0 MB/s, ")
    (row,) = made.topics
    assert (
        live_flow_table.describe_topic_state(row),
        live_flow_table.describe_replication_path(row),
    ) == (
        "PAUSED",
        "pass-through",
    )
    one = pause_and_throttle_overrides.parse_overrides(
        {"throttle.topics": "orders=2kB"}, is_paused=False
    )
    (row,) = make(statuses.flow(statuses.partition(), holds=one)).topics
    assert (
        live_flow_table.describe_topic_state(row),
        live_flow_table.describe_replication_path(row),
    ) == (
        "COPYING",
        "pass-through, throttled to 2.0 kB/s",
    )
