from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.status import time_to_data_loss
from mm2.status.time_to_data_loss import (
    DeletionCause,
    RetentionRisk,
    RetentionRiskEstimator,
    RetentionSample,
    RiskKind,
    TopicRetention,
)
from mm2.suggested_commands import ClusterCommands

By, Kind = DeletionCause, RiskKind
SOURCE = ClusterCommands(bootstrap="e:1")


def runs_out(cause: DeletionCause, left_ms: int = 7_200_000) -> RetentionRisk:
    return RetentionRisk(kind=Kind.RUNS_OUT, left_ms=left_ms, cause=cause, share=0.1)


@pytest.mark.parametrize(
    ("risk", "short", "said"),
    [
        (
            runs_out(By.TIME),
            "2.0 h",
            "the source deletes unreplicated records in 2.0 h at the earliest (retention.ms)",
        ),
        (
            runs_out(By.SIZE, 90_000),
            "90 s",
            "the source deletes unreplicated records in about 90 s at the current write rate "
            "(retention.bytes)",
        ),
        (
            runs_out(By.START, 0),
            "0 s",
            "the source deletes unreplicated records in about 0 s at the rate at which its log "
            "start advances",
        ),
        (
            RetentionRisk(kind=Kind.GONE, left_ms=0, deleted_offsets=20),
            "gone",
            "the source deleted 20 offsets before they were replicated",
        ),
        (RetentionRisk(kind=Kind.KEPT), "-", ""),
        (RetentionRisk(kind=Kind.UNKNOWN), "-", ""),
        (RetentionRisk(kind=Kind.NOTHING_WAITS), "-", ""),
    ],
)
def test_what_the_source_does_to_what_waits(risk, short, said):
    assert (
        time_to_data_loss.format_time_left(risk),
        time_to_data_loss.describe_data_loss(risk),
    ) == (
        short,
        said,
    )


def test_of_nothing_nothing_is_said():
    assert time_to_data_loss.format_time_left(None) == "-"


@pytest.mark.parametrize(
    ("risk", "retention", "setting"),
    [
        (runs_out(By.TIME), TopicRetention(retention_ms=5), "retention.ms=10"),
        (runs_out(By.SIZE), TopicRetention(retention_bytes=7), "retention.bytes=14"),
        (runs_out(By.START), TopicRetention(retention_ms=5), ""),
        (runs_out(By.TIME), None, ""),
        (runs_out(By.TIME), TopicRetention(retention_ms=0), ""),
        (RetentionRisk(kind=Kind.GONE), TopicRetention(retention_ms=5), ""),
    ],
)
def test_the_way_on_is_to_let_it_keep_more(risk, retention, setting):
    line = time_to_data_loss.make_retention_command(
        "orders", risk, retention=retention, source=SOURCE
    )
    assert line == (
        setting and SOURCE.build_set_topic_configs_command("orders", dict([setting.split("=")]))
    )


HOUR_MS = 3_600_000


def look(at_ms: int = 0, *, start: int = 0, end: int = 100, copied_to: int = 10, **more):
    return RetentionSample(at_ms=at_ms, start=start, end=end, copied_to=copied_to, **more)


def fold(*looks: RetentionSample) -> RetentionRiskEstimator:
    found = RetentionRiskEstimator()
    for each in looks:
        found.observe(each)
        found.check_invariants()
    return found


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        ({"cleanup.policy": "compact"}, TopicRetention()),
        ({"cleanup.policy": "delete"}, None),
        (
            {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"},
            TopicRetention(),
        ),
        (
            {"cleanup.policy": "compact,delete", "retention.ms": "5", "retention.bytes": "-1"},
            TopicRetention(retention_ms=5),
        ),
        (
            {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "7"},
            TopicRetention(retention_bytes=7),
        ),
        (
            {"cleanup.policy": "delete", "retention.ms": "?", "retention.bytes": "7"},
            None,
        ),
    ],
)
def test_what_a_topics_settings_delete_by(settings, expected):
    assert TopicRetention.parse(settings) == expected


@pytest.mark.parametrize(
    ("seen", "retention", "expected"),
    [
        (look(copied_to=100), None, RetentionRisk(kind=RiskKind.NOTHING_WAITS)),
        (look(), None, RetentionRisk(kind=RiskKind.UNKNOWN)),
        (look(), TopicRetention(), RetentionRisk(kind=RiskKind.KEPT)),
        (look(), TopicRetention(retention_ms=HOUR_MS), RetentionRisk(kind=RiskKind.UNKNOWN)),
        (look(), TopicRetention(retention_bytes=1), RetentionRisk(kind=RiskKind.UNKNOWN)),
        (
            look(start=30),
            TopicRetention(),
            RetentionRisk(kind=RiskKind.GONE, left_ms=0, share=0.0, deleted_offsets=20),
        ),
        (
            look(HOUR_MS, waiting_since_ms=HOUR_MS // 4),
            TopicRetention(retention_ms=HOUR_MS),
            RetentionRisk(
                kind=RiskKind.RUNS_OUT, left_ms=HOUR_MS // 4, cause=DeletionCause.TIME, share=0.25
            ),
        ),
        (
            look(3 * HOUR_MS, waiting_since_ms=0),
            TopicRetention(retention_ms=HOUR_MS),
            RetentionRisk(kind=RiskKind.RUNS_OUT, left_ms=0, cause=DeletionCause.TIME, share=0.0),
        ),
        (
            look(0, waiting_since_ms=HOUR_MS),
            TopicRetention(retention_ms=HOUR_MS),
            RetentionRisk(
                kind=RiskKind.RUNS_OUT, left_ms=2 * HOUR_MS, cause=DeletionCause.TIME, share=1.0
            ),
        ),
    ],
)
def test_what_one_look_tells(seen, retention, expected):
    assert fold(seen).estimate_risk(retention) == expected


def test_nothing_was_seen_yet():
    assert RetentionRiskEstimator().estimate_risk(TopicRetention()).kind is RiskKind.UNKNOWN


def test_by_size_what_waits_may_grow_until_it_is_all_that_is_kept():
    """100 records a second of 10 bytes; 2,000 wait, and 60,000 bytes are kept."""
    found = fold(
        look(0, end=1_000, copied_to=0, bytes_per_record=10.0),
        look(10_000, end=2_000, copied_to=0, bytes_per_record=10.0),
    )
    risk = found.estimate_risk(TopicRetention(retention_bytes=60_000))
    assert risk.cause is DeletionCause.SIZE
    assert risk.left_ms == 40_000
    assert risk.share == pytest.approx(2 / 3)
    assert not risk.is_time_to_data_loss_short


def test_more_waits_than_is_kept():
    found = fold(
        look(0, end=1_000, copied_to=0, bytes_per_record=10.0),
        look(10_000, end=1_000, copied_to=0, bytes_per_record=10.0),
    )
    risk = found.estimate_risk(TopicRetention(retention_bytes=5_000))
    assert (risk.left_ms, risk.share) == (0, 0.0)
    assert risk.is_time_to_data_loss_short


def test_where_nothing_comes_nothing_goes_by_size():
    seen = [look(at, end=1_000, copied_to=0, bytes_per_record=10.0) for at in (0, 10_000)]
    retention = TopicRetention(retention_bytes=50_000)
    assert fold(*seen).estimate_risk(retention).kind is RiskKind.UNKNOWN


def test_a_start_that_moves_by_segments_is_taken_at_its_mean_speed():
    """100 offsets every 10 s."""
    starts = [0, 0, 100, 100, 200, 200]
    found = fold(
        *(look(5_000 * n, start=start, end=1_000, copied_to=600) for n, start in enumerate(starts))
    )
    risk = found.estimate_risk(None)
    assert risk.cause is DeletionCause.START
    assert risk.left_ms == int(400 / (100 / 15_000))  # since it moved last it slowed down
    assert risk.share == pytest.approx(400 / 800)


def test_one_move_tells_no_speed():
    found = fold(look(0, copied_to=50), look(1_000, start=20, copied_to=50))
    assert found.estimate_risk(None).kind is RiskKind.UNKNOWN


def test_what_deletes_first_counts():
    seen = [
        look(at, end=1_000 + at, copied_to=0, bytes_per_record=1.0, waiting_since_ms=0)
        for at in (0, 1_000)
    ]
    both = TopicRetention(retention_ms=5_000, retention_bytes=4_000)
    assert fold(*seen).estimate_risk(both).cause is DeletionCause.SIZE
    both = TopicRetention(retention_ms=2_000, retention_bytes=4_000)
    assert fold(*seen).estimate_risk(both).cause is DeletionCause.TIME


def test_another_log_of_that_name_begins_anew():
    moving = [look(1_000 * n, start=10 * n, copied_to=80) for n in range(4)]
    assert fold(*moving).estimate_risk(None).cause is DeletionCause.START
    again = fold(*moving, look(9_000, start=0, end=50, copied_to=20))
    assert again.estimate_risk(None).kind is RiskKind.UNKNOWN


def test_where_the_clock_was_set_back_it_begins_anew():
    moving = [look(1_000 * n, start=10 * n, copied_to=80) for n in range(4)]
    assert (
        fold(*moving, look(500, start=30, copied_to=80)).estimate_risk(None).kind
        is RiskKind.UNKNOWN
    )
    assert fold(look(500, copied_to=0), look(500, copied_to=100)).estimate_risk(None).kind is (
        RiskKind.NOTHING_WAITS
    )


@pytest.mark.parametrize(
    ("risk", "short"),
    [
        (RetentionRisk(kind=RiskKind.GONE), True),
        (RetentionRisk(kind=RiskKind.RUNS_OUT, left_ms=1, share=0.24), True),
        (RetentionRisk(kind=RiskKind.RUNS_OUT, left_ms=1, share=0.25), False),
        (RetentionRisk(kind=RiskKind.UNKNOWN), False),
    ],
)
def test_when_somebody_should_know(risk, short):
    assert risk.is_time_to_data_loss_short is short


STEP = st.tuples(
    st.integers(1, 300_000), st.integers(0, 50), st.integers(0, 90), st.integers(0, 100)
)


@given(
    st.lists(STEP, min_size=1, max_size=60),
    st.sampled_from([None, TopicRetention(retention_ms=HOUR_MS, retention_bytes=10_000)]),
)
def test_whatever_is_seen_is_bounded_and_never_negative(steps, retention):
    found, at, start, end = RetentionRiskEstimator(), 0, 0, 0
    for passed_ms, moved, grown, copied in steps:
        at, start = at + passed_ms, start + moved
        end = max(end + grown, start)
        found.observe(
            look(
                at, start=start, end=end, copied_to=copied, waiting_since_ms=0, bytes_per_record=3.0
            )
        )
        found.check_invariants()
        risk = found.estimate_risk(retention)
        assert risk.left_ms is None or risk.left_ms >= 0
        assert risk.share is None or 0 <= risk.share <= 1
        assert (risk.kind is RiskKind.RUNS_OUT) == (risk.cause is not None)
