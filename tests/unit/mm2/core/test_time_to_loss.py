from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.core import time_to_loss as loss

HOUR_MS = 3_600_000


def look(at_ms: int = 0, *, start: int = 0, end: int = 100, copied_to: int = 10, **more):
    return loss.Look(at_ms=at_ms, start=start, end=end, copied_to=copied_to, **more)


def fold(*looks: loss.Look) -> loss.TimeToLoss:
    found = loss.TimeToLoss()
    for each in looks:
        found.look(each)
        found.check_invariants()
    return found


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        ({"cleanup.policy": "compact"}, loss.Retention()),
        ({"cleanup.policy": "delete"}, None),
        (
            {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"},
            loss.Retention(),
        ),
        (
            {"cleanup.policy": "compact,delete", "retention.ms": "5", "retention.bytes": "-1"},
            loss.Retention(keeps_ms=5),
        ),
        (
            {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "7"},
            loss.Retention(keeps_bytes=7),
        ),
        (
            {"cleanup.policy": "delete", "retention.ms": "?", "retention.bytes": "7"},
            None,
        ),
    ],
)
def test_what_a_topics_settings_delete_by(settings, expected):
    assert loss.Retention.of(settings) == expected


@pytest.mark.parametrize(
    ("seen", "retention", "expected"),
    [
        (look(copied_to=100), None, loss.Outlook(kind=loss.Kind.NOTHING_WAITS)),
        (look(), None, loss.Outlook(kind=loss.Kind.UNKNOWN)),
        (look(), loss.Retention(), loss.Outlook(kind=loss.Kind.KEPT)),
        (look(), loss.Retention(keeps_ms=HOUR_MS), loss.Outlook(kind=loss.Kind.UNKNOWN)),
        (look(), loss.Retention(keeps_bytes=1), loss.Outlook(kind=loss.Kind.UNKNOWN)),
        (
            look(start=30),
            loss.Retention(),
            loss.Outlook(kind=loss.Kind.GONE, left_ms=0, share=0.0, gone=20),
        ),
        (
            look(HOUR_MS, waiting_since_ms=HOUR_MS // 4),
            loss.Retention(keeps_ms=HOUR_MS),
            loss.Outlook(
                kind=loss.Kind.RUNS_OUT, left_ms=HOUR_MS // 4, by=loss.By.TIME, share=0.25
            ),
        ),
        (
            look(3 * HOUR_MS, waiting_since_ms=0),
            loss.Retention(keeps_ms=HOUR_MS),
            loss.Outlook(kind=loss.Kind.RUNS_OUT, left_ms=0, by=loss.By.TIME, share=0.0),
        ),
        (
            look(0, waiting_since_ms=HOUR_MS),
            loss.Retention(keeps_ms=HOUR_MS),
            loss.Outlook(kind=loss.Kind.RUNS_OUT, left_ms=2 * HOUR_MS, by=loss.By.TIME, share=1.0),
        ),
    ],
)
def test_what_one_look_tells(seen, retention, expected):
    assert fold(seen).outlook(retention) == expected


def test_nothing_was_seen_yet():
    assert loss.TimeToLoss().outlook(loss.Retention()).kind is loss.Kind.UNKNOWN


def test_by_size_what_waits_may_grow_until_it_is_all_that_is_kept():
    """100 records a second of 10 bytes; 2,000 wait, and 60,000 bytes are kept."""
    found = fold(
        look(0, end=1_000, copied_to=0, bytes_each=10.0),
        look(10_000, end=2_000, copied_to=0, bytes_each=10.0),
    )
    outlook = found.outlook(loss.Retention(keeps_bytes=60_000))
    assert outlook.by is loss.By.SIZE
    assert outlook.left_ms == 40_000
    assert outlook.share == pytest.approx(2 / 3)
    assert not outlook.is_short


def test_more_waits_than_is_kept():
    found = fold(
        look(0, end=1_000, copied_to=0, bytes_each=10.0),
        look(10_000, end=1_000, copied_to=0, bytes_each=10.0),
    )
    outlook = found.outlook(loss.Retention(keeps_bytes=5_000))
    assert (outlook.left_ms, outlook.share) == (0, 0.0)
    assert outlook.is_short


def test_where_nothing_comes_nothing_goes_by_size():
    seen = [look(at, end=1_000, copied_to=0, bytes_each=10.0) for at in (0, 10_000)]
    retention = loss.Retention(keeps_bytes=50_000)
    assert fold(*seen).outlook(retention).kind is loss.Kind.UNKNOWN


def test_a_start_that_moves_by_segments_is_taken_at_its_mean_speed():
    """100 offsets every 10 s."""
    starts = [0, 0, 100, 100, 200, 200]
    found = fold(
        *(look(5_000 * n, start=start, end=1_000, copied_to=600) for n, start in enumerate(starts))
    )
    outlook = found.outlook(None)
    assert outlook.by is loss.By.START
    assert outlook.left_ms == int(400 / (100 / 15_000))  # since it moved last it slowed down
    assert outlook.share == pytest.approx(400 / 800)


def test_one_move_tells_no_speed():
    found = fold(look(0, copied_to=50), look(1_000, start=20, copied_to=50))
    assert found.outlook(None).kind is loss.Kind.UNKNOWN


def test_what_deletes_first_counts():
    seen = [
        look(at, end=1_000 + at, copied_to=0, bytes_each=1.0, waiting_since_ms=0)
        for at in (0, 1_000)
    ]
    both = loss.Retention(keeps_ms=5_000, keeps_bytes=4_000)
    assert fold(*seen).outlook(both).by is loss.By.SIZE
    both = loss.Retention(keeps_ms=2_000, keeps_bytes=4_000)
    assert fold(*seen).outlook(both).by is loss.By.TIME


def test_another_log_of_that_name_begins_anew():
    moving = [look(1_000 * n, start=10 * n, copied_to=80) for n in range(4)]
    assert fold(*moving).outlook(None).by is loss.By.START
    again = fold(*moving, look(9_000, start=0, end=50, copied_to=20))
    assert again.outlook(None).kind is loss.Kind.UNKNOWN


def test_where_the_clock_was_set_back_it_begins_anew():
    moving = [look(1_000 * n, start=10 * n, copied_to=80) for n in range(4)]
    assert fold(*moving, look(500, start=30, copied_to=80)).outlook(None).kind is loss.Kind.UNKNOWN
    assert fold(look(500, copied_to=0), look(500, copied_to=100)).outlook(None).kind is (
        loss.Kind.NOTHING_WAITS
    )


@pytest.mark.parametrize(
    ("outlook", "short"),
    [
        (loss.Outlook(kind=loss.Kind.GONE), True),
        (loss.Outlook(kind=loss.Kind.RUNS_OUT, left_ms=1, share=0.24), True),
        (loss.Outlook(kind=loss.Kind.RUNS_OUT, left_ms=1, share=0.25), False),
        (loss.Outlook(kind=loss.Kind.UNKNOWN), False),
    ],
)
def test_when_somebody_should_know(outlook, short):
    assert outlook.is_short is short


STEP = st.tuples(
    st.integers(1, 300_000), st.integers(0, 50), st.integers(0, 90), st.integers(0, 100)
)


@given(
    st.lists(STEP, min_size=1, max_size=60),
    st.sampled_from([None, loss.Retention(keeps_ms=HOUR_MS, keeps_bytes=10_000)]),
)
def test_whatever_is_seen_is_bounded_and_never_negative(steps, retention):
    found, at, start, end = loss.TimeToLoss(), 0, 0, 0
    for passed_ms, moved, grown, copied in steps:
        at, start = at + passed_ms, start + moved
        end = max(end + grown, start)
        found.look(
            look(at, start=start, end=end, copied_to=copied, waiting_since_ms=0, bytes_each=3.0)
        )
        found.check_invariants()
        outlook = found.outlook(retention)
        assert outlook.left_ms is None or outlook.left_ms >= 0
        assert outlook.share is None or 0 <= outlook.share <= 1
        assert (outlook.kind is loss.Kind.RUNS_OUT) == (outlook.by is not None)
