"""The judge of cleaned logs, without brokers: what it excuses, and every fault that it must not."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.formats.incident_records import Incident, IncidentKind, OffsetRange
from mm2.sandbox import replication_proof
from mm2.sandbox.compared_records import CondensedLog, RawRecord, RecordChunk
from mm2.sandbox.log_comparison import DifferenceKind, LogComparison
from mm2.sandbox.replication_proof import ComparedLogs

KIND = DifferenceKind
Log = CondensedLog
Placed = tuple[int, RawRecord]
MARKER = 500
"""The mirror's offsets begin there."""


def raw(key: int, value: bytes | None, stamp: int = 1_000) -> RawRecord:
    return (b"key-%d" % key, value, [("h", b"1")], (0, stamp))


def source(count: int = 40, keys: int = 8) -> list[Placed]:
    """Each key several times, and some tombstones."""
    return [
        (offset, raw(offset % keys, None if offset % 11 == 5 else b"v%d" % offset, offset))
        for offset in range(count)
    ]


def mirror(of: Sequence[Placed], first: int = MARKER) -> list[Placed]:
    return [(first + place, content) for place, (_, content) in enumerate(of)]


def cleaned(log: Sequence[Placed], *, upto: int) -> list[Placed]:
    """What the cleaner leaves when it has looked at the offsets below `upto`."""
    last = {content[0]: offset for offset, content in log if offset < upto}
    return [each for each in log if each[0] >= upto or last[each[1][0]] == each[0]]


def condensed(log: Sequence[Placed]) -> CondensedLog:
    return Log.from_chunks(RecordChunk([offset], [content], 1) for offset, content in log)


def judged(
    now: Sequence[Placed], target: Sequence[Placed], before: Sequence[Placed] = (), **more
) -> LogComparison:
    options = {key: more.pop(key) for key in ("compacted", "target_cleaned") if key in more}
    sides = ComparedLogs(
        before=condensed(before), source=condensed(now), target=condensed(target), **more
    )
    return replication_proof.compare_partition_logs(sides, **{"compacted": True} | options)


def kinds(outcome: LogComparison) -> dict[DifferenceKind, int]:
    return {each.kind: each.count for each in outcome.differences}


# What is excused


def test_a_log_that_nobody_cleaned_is_equal_to_its_mirror():
    outcome = judged(source(), mirror(source()))
    assert outcome.differences == ()
    assert (outcome.source_records, outcome.target_records) == (40, 40)


def test_what_was_copied_before_it_was_cleaned_may_stand():
    now = cleaned(source(), upto=30)
    assert len(now) < 40
    assert kinds(judged(now, mirror(source()), source())) == {}


def test_what_was_cleaned_before_it_was_copied_may_be_lacking():
    now = cleaned(source(), upto=30)
    assert kinds(judged(now, mirror(now), source())) == {}
    assert (
        kinds(judged(now, mirror(source()[:10] + [e for e in now if e[0] >= 10]), source())) == {}
    )


def test_a_tombstone_that_the_cleaner_took_may_stand_or_not():
    before = source()
    now = [each for each in cleaned(before, upto=40) if each[1][1] is not None]
    assert len(now) < len(cleaned(before, upto=40))
    assert kinds(judged(now, mirror(now), before)) == {}
    assert kinds(judged(now, mirror(before), before)) == {}


def test_what_an_incident_names_on_the_target_does_not_count():
    """The tail could not be paired: it is copied again behind the marker, as far as it is there."""
    before = source()
    now = cleaned(before, upto=36)
    again = [each for each in now if each[0] >= 20]
    target = mirror(before[:30]) + mirror(again, first=MARKER + 31)
    assert kinds(judged(now, target, before, ignored=[(MARKER + 20, MARKER + 30)])) == {}


def test_what_an_incident_names_on_the_source_may_be_lacking():
    before = source()
    now = before[25:]
    assert kinds(judged(now, mirror(before[:10] + now), before, may_be_missing=[(10, 25)])) == {}


def test_the_mirror_s_own_cleaner_may_have_run():
    target = [(MARKER + offset, content) for offset, content in cleaned(source(), upto=30)]
    assert kinds(judged(source(), target, target_cleaned=True)) == {}
    assert kinds(judged(source(), target)) == {KIND.MISSING: 40 - len(target)}


# What is not


@pytest.mark.parametrize("place", [0, 17, 39])
def test_a_lost_record_that_the_source_still_has(place):
    target = mirror(source())
    del target[place]
    assert judged(source(), target).differences[0].kind is KIND.MISSING


def test_a_lost_record_that_no_cleaner_would_take():
    """It was the last one of its key: gone by retention, and no incident says so."""
    before = source()
    now = before[25:]
    lonely = [(100, raw(77, b"alone"))]
    found = kinds(judged(now, mirror(before[:10] + now), [*before, *lonely], compacted=False))
    assert found == {KIND.MISSING: 1}


def test_lost_beside_what_the_incident_names():
    before = [(offset, raw(offset, b"v")) for offset in range(40)]
    now = before[25:]
    target = mirror(before[:9] + now)
    found = judged(now, target, before, may_be_missing=[(10, 25)], compacted=False)
    assert kinds(found) == {KIND.MISSING: 1}
    assert found.differences[0].source_offset == 9


def stated(kind: IncidentKind, source: OffsetRange) -> Incident:
    return Incident(
        topic="orders",
        partition=0,
        id="x",
        kind=kind,
        flow="east->west",
        at_ms=5,
        detail="",
        source=source,
    )


@pytest.mark.parametrize(
    ("kind", "missing"),
    [(IncidentKind.SOURCE_GONE, 5), (IncidentKind.NEW_ERA_REQUESTED, 0)],
)
def test_an_incident_that_says_more_is_gone_than_is(kind, missing):
    """An operator may leave out what is still there; the source's deletion does not."""
    before = source(keys=40)
    now = before[25:]
    sides = ComparedLogs.from_incidents(
        [stated(kind, (10, 30))],
        before=condensed(before),
        source=condensed(now),
        target=condensed(mirror(before[:10] + before[30:])),
    )
    outcome = replication_proof.compare_partition_logs(sides, compacted=False)
    assert kinds(outcome) == ({KIND.MISSING: missing} if missing else {})


@pytest.mark.parametrize("place", [0, 12, 39])
def test_a_doubled_record(place):
    target = mirror(source()[: place + 1] + source()[place:])
    assert kinds(judged(source(), target))[KIND.DUPLICATED] == 1


def test_a_doubled_record_that_the_source_no_longer_has():
    before, now = source(), cleaned(source(), upto=30)
    target = mirror(before[:3] + before[2:])
    assert kinds(judged(now, target, before)) == {KIND.DUPLICATED: 1}


def test_records_copied_again_without_an_incident_that_names_them():
    before = source()
    now = cleaned(before, upto=36)
    again = [each for each in now if each[0] >= 20]
    assert again[0][0] == 28
    target = mirror(before[:30]) + mirror(again, first=MARKER + 31)
    assert kinds(judged(now, target, before)) == {KIND.DUPLICATED: 2}
    too_few = judged(now, target, before, ignored=[(MARKER + 29, MARKER + 30)])
    assert kinds(too_few) == {KIND.DUPLICATED: 1}
    assert kinds(judged(now, target, before, ignored=[(MARKER + 28, MARKER + 30)])) == {}


def test_two_swapped_records():
    target = mirror(source())
    target[20], target[21] = (target[20][0], target[21][1]), (target[21][0], target[20][1])
    assert kinds(judged(source(), target)) == {KIND.REORDERED: 1}


@pytest.mark.parametrize(
    "change",
    [
        lambda key, value, headers, time: (key, b"other", headers, time),
        lambda key, value, headers, time: (b"other", value, headers, time),
        lambda key, value, headers, time: (key, value, [("h", None)], time),
        lambda key, value, headers, time: (key, value, None, time),
        lambda key, value, headers, time: (key, value, headers, (0, 7)),
        lambda key, value, headers, time: (key, None, headers, time),
    ],
)
def test_an_altered_record(change):
    target = mirror(source())
    target[12] = (target[12][0], change(*target[12][1]))
    outcome = judged(source(), target)
    assert kinds(outcome)[KIND.ALTERED] == 1
    assert outcome.differences[0].fields == ()


def test_an_altered_record_that_the_source_no_longer_has():
    before, now = source(), cleaned(source(), upto=30)
    target = mirror(before)
    target[2] = (target[2][0], raw(2, b"other"))
    # The true one may be lacking; what stands in its place is nobody's.
    assert kinds(judged(now, target, before)) == {KIND.EXTRA: 1}


def test_a_wrong_last_value_even_where_an_incident_excuses_all():
    target = mirror(source())
    last = target[-1]
    target.append((MARKER + 40, raw(39 % 8, b"wrong")))
    excused = judged(source(), target, ignored=[(MARKER, MARKER + 41)], may_be_missing=[(0, 40)])
    assert kinds(excused) == {KIND.STALE: 1}
    (found,) = excused.differences
    assert (found.source_offset, found.target_offset) == (39, MARKER + 40)
    assert last[1][0] == b"key-7"


def test_a_key_that_came_back_from_the_dead():
    """Its tombstone was lost: whoever reads the mirror believes that it lives."""
    before = [(0, raw(1, b"alive")), (1, raw(1, None)), (2, raw(2, b"other"))]
    target = mirror([before[0], before[2]])
    assert kinds(judged(before, target, may_be_missing=[(1, 2)])) == {KIND.STALE: 1}
    assert kinds(judged(before[2:], target, before, may_be_missing=[(1, 2)])) == {KIND.STALE: 1}


def test_a_key_that_is_not_there_at_all():
    now = [(0, raw(1, b"one")), (1, raw(2, b"two"))]
    assert kinds(judged(now, mirror(now[:1]), may_be_missing=[(0, 2)])) == {KIND.STALE: 1}
    assert kinds(judged(now, mirror(now[:1]), may_be_missing=[(0, 2)], compacted=False)) == {}


@given(seed=st.integers(0, 10**9), fault=st.sampled_from(["none", "lost", "doubled", "altered"]))
def test_cleaned_at_any_time_it_is_equal_exactly_without_a_fault(seed, fault):
    rng = random.Random(seed)
    before = source(rng.randrange(10, 60), keys=rng.randrange(1, 9))
    copied = rng.randrange(len(before))
    now = cleaned(before, upto=rng.randrange(len(before)))
    held = before[:copied] + [each for each in now if each[0] >= copied]
    present = {offset for offset, _ in now}
    target = list(held)
    place = rng.choice([at for at, (offset, _) in enumerate(held) if offset in present])
    match fault:
        case "lost":
            del target[place]
        case "doubled":
            target.insert(place, target[place])
        case "altered":
            target[place] = (target[place][0], raw(3, b"nobody wrote this"))
    outcome = judged(now, mirror(target), before)
    assert (outcome.differences == ()) == (fault == "none")
