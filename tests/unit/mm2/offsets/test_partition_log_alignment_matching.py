"""What stands in one log of the other: all that is told apart, in bounds what is not, and nothing
that was guessed. Against the oracle of real clusters, over random histories of a mirror."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.formats import offset_map_records
from mm2.offsets import offset_map_rebuild_plan, offset_translation, partition_log_alignment
from mm2.offsets.offset_map import OffsetMap, PartitionMap
from mm2.offsets.offset_translation import EarlierOffset, ExactOffset, UntranslatedReason
from mm2.offsets.partition_log_alignment import AlignedRange, LogAlignment, LogDigests
from tests.fakes import copied_map
from tests.support import examples
from tests.support.offset_oracle import Oracle, Verdict

HOLE, MARKER = "hole", "marker"
Log = list[int | str]


def items(log: Log, *, start=0, optional=()):
    """By offset: a record's digest, `MARKER`, or `HOLE`, which nobody explains."""
    made = LogDigests(start=start)
    for offset, each in enumerate(log, start=start):
        if each == MARKER:
            made.skip_to_offset(offset + 1)
        elif each == HOLE:
            made.skip_to_offset(offset + 1, hole=True)
        else:
            assert isinstance(each, int)
            made.add_item_digest(offset, each, optional=offset in optional, producer_id=7)
    made.check_invariants()
    return made


def matched(source: Log, target: Log, **more) -> LogAlignment:
    found = partition_log_alignment.align_logs(items(source, **more), items(target))
    assert found is not None
    return found


def partition_map(found: LogAlignment) -> PartitionMap:
    known = OffsetMap()
    era = copied_map.era_of(found.first_source, found.first_target)
    for key, value in offset_map_rebuild_plan.rebuild_first_era(copied_map.T7, found, era):
        known.apply_record(
            offset_map_records.encode_map_key(key), offset_map_records.encode_map_value(value)
        )
    known.check_invariants()
    return known.get_partition(copied_map.T7)


def answers(found: LogAlignment, offsets) -> list[object]:
    known = partition_map(found)
    return [offset_translation.translate_to_target(known, each) for each in offsets]


def exact(*offsets):
    return [ExactOffset(downstream=each) for each in offsets]


def test_a_mirror_without_gaps_is_one_run():
    found = matched([1, 2, 3, 4], [1, 2, 3])
    assert found.ranges == (AlignedRange(0, 3, 3, ((0, 0),)),)
    assert (
        found.matched_offsets,
        found.bounded_offsets,
        found.unmatched_tail,
        found.producer_ids,
    ) == (3, 0, 0, (7,))
    assert answers(found, range(4)) == exact(0, 1, 2, 3)


def test_markers_on_both_sides_are_gaps():
    found = matched([1, MARKER, 2, 3, MARKER], [MARKER, 1, 2, MARKER, 3])
    assert found.ranges == (AlignedRange(0, 5, 5, ((0, 1), (2, 0), (3, 1))),)
    assert answers(found, range(6)) == exact(1, 2, 2, 4, 5, 5)


def test_what_the_target_has_no_more_is_too_old():
    found = matched([1, 2, 3, 4], [3, 4])
    assert (found.first_source, found.first_target) == (2, 0)
    assert answers(found, [1]) == [UntranslatedReason.TOO_OLD]
    assert answers(found, [2, 3]) == exact(0, 1)


def test_what_the_source_has_no_more_is_passed_over():
    found = partition_log_alignment.align_logs(items([3, 4], start=12), items([1, 2, 3, 4]))
    assert found is not None
    assert (found.first_source, found.first_target) == (12, 2)


def test_nothing_in_common_is_nothing():
    assert partition_log_alignment.align_logs(items([1, 2]), items([3, 4])) is None
    assert partition_log_alignment.align_logs(items([]), items([3])) is None
    assert partition_log_alignment.align_logs(items([1]), items([])) is None


def test_of_what_was_copied_twice_the_last_copy_counts():
    found = matched([1, 2, 3, 4, 5], [1, 2, 3, MARKER, 2, 3, 4])
    assert answers(found, range(5)) == exact(0, 4, 5, 6, 7)
    assert found.bounded_offsets == 0


def test_what_two_wrote_side_by_side_has_a_bound():
    """The second stepped back to 3 while the first went on."""
    found = matched([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 3, 5, 4, 6])
    known = partition_map(found)
    assert offset_translation.translate_to_target(known, 5) == ExactOffset(downstream=7)
    inside = offset_translation.translate_to_target(known, 4)
    assert isinstance(inside, EarlierOffset)
    assert inside.downstream <= 5 <= inside.downstream + inside.reread_max


def test_alike_records_pair_where_nothing_is_missing_between_two_sure_ones():
    found = matched([1, 9, 9, 2], [1, 9, 9, MARKER, 2])
    assert answers(found, range(4)) == exact(0, 1, 2, 4)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ([1, 9, HOLE, 9, 2, 3], [1, 9, 2, 3]),
        ([1, 9, 9, 9, 2, 3], [1, 9, HOLE, 9, 2, 3]),
        ([1, 9, 9, 2, 3], [1, 9, 2, 3]),
    ],
    ids=["source", "target", "one too few"],
)
def test_alike_records_of_which_some_are_missing_are_nobodys(source, target):
    found = matched(source, target)
    last = source.index(2)
    known = partition_map(found)
    assert offset_translation.translate_to_target(known, 0) == ExactOffset(downstream=0)
    right = ExactOffset(downstream=target.index(2))
    assert offset_translation.translate_to_target(known, last) == right
    for between in range(2, last):
        inside = offset_translation.translate_to_target(known, between)
        assert isinstance(inside, EarlierOffset)
        assert inside.downstream == 1
    assert found.bounded_offsets > 0


def test_behind_alike_records_of_which_some_are_missing_one_more_is_no_proof():
    """The 2 of the mirror may be of an equal that stood where the hole is."""
    found = matched([1, 9, HOLE, 9, 2], [1, 9, 2])
    assert (found.first_source, found.source_end) == (0, 1)


def test_before_and_behind_all_that_is_told_apart_alike_records_are_nobodys():
    found = matched([9, 9, 1, 2, 9, 9], [9, 1, 2, 9, 9])
    assert (found.first_source, found.source_end, found.unmatched_tail) == (2, 4, 2)
    assert answers(found, range(2, 5)) == exact(1, 2, 3)


def test_what_was_copied_twice_at_the_end_is_left_to_who_goes_on():
    found = matched([1, 2, 3], [1, 2, 3, 2, 3])
    assert (found.first_source, found.source_end, found.unmatched_tail) == (0, 1, 4)
    assert answers(found, range(2)) == exact(0, 1)


def test_where_all_are_alike_both_logs_have_to_be_whole():
    assert answers(matched([9, 9, 9], [9, 9, 9]), range(3)) == exact(0, 1, 2)
    assert partition_log_alignment.align_logs(items([9, 9, 9]), items([9, 9])) is None
    assert partition_log_alignment.align_logs(items([9, 9], start=1), items([9, 9])) is None


def test_a_twin_that_stands_elsewhere_is_no_copy():
    """An equal record that the source has deleted was copied long before."""
    found = partition_log_alignment.align_logs(
        items([3, 4, 5, 1], start=12), items([1, 2, 3, 4, 5])
    )
    assert found is not None
    assert answers(found, [12, 13, 14]) == exact(2, 3, 4)
    assert found.source_end == 15


def test_a_twin_of_what_the_cleaner_took_is_no_copy():
    """The second 2 on the mirror was copied from a record that the source has no more."""
    found = matched([1, 2, 3, HOLE, 4], [1, 2, 3, 2, 4])
    known = partition_map(found)
    assert offset_translation.translate_to_target(known, 4) == ExactOffset(downstream=4)
    inside = offset_translation.translate_to_target(known, 2)
    assert isinstance(inside, EarlierOffset)
    assert inside.downstream <= 2


def test_a_later_equal_of_what_the_cleaner_took_was_not_copied_with_it():
    """9 was copied as the source's second record, and then nothing more."""
    found = matched([1, HOLE, HOLE, 4, 5, 9, 6], [1, 9, 3])
    assert (found.first_source, found.source_end, found.unmatched_tail) == (0, 1, 2)
    assert answers(found, [0]) == exact(0)


def test_a_later_equal_of_what_was_deleted_was_not_copied_with_it():
    assert partition_log_alignment.align_logs(items([4, 9, 5], start=12), items([9, 3])) is None
    more = partition_log_alignment.align_logs(items([4, 9, 5], start=12), items([9, 5]))
    assert (more and more.source_end) == 15, "one alone is no proof, two are"


def test_where_all_differ_what_both_have_is_the_same_whatever_else_is_gone():
    source: Log = [1, HOLE, HOLE, 4, 5, 9, 6]
    target: Log = [1, HOLE, HOLE, HOLE, 9]
    assert matched(source, target).source_end == 1
    found = partition_log_alignment.align_logs(items(source), items(target), assume_unique=True)
    assert found is not None
    assert answers(found, [5, 6]) == exact(4, 5)


def test_what_the_cleaner_took_from_the_mirror_was_copied_where_enough_follows():
    found = matched([1, HOLE, 3, 4, 5, 6], [1, 2, HOLE, 4, 5])
    assert answers(found, [3, 4, 5]) == exact(3, 4, 5)


def test_what_was_aborted_may_have_been_copied():
    aborted = (1, 2)
    assert answers(matched([1, 9, 9, 2], [1, 2], optional=aborted), [0, 3]) == exact(0, 1)
    assert answers(matched([1, 9, 9, 2], [1, 9, 9, 2], optional=aborted), range(4)) == exact(
        0, 1, 2, 3
    )


def test_what_was_aborted_is_no_copy_of_an_equal_that_the_cleaner_took():
    """9 stood behind it once more, was committed and copied."""
    found = matched([1, 9, HOLE, 4, 5], [1, 9, 4, 5], optional=(1,))
    known = partition_map(found)
    assert offset_translation.translate_to_target(known, 3) == ExactOffset(downstream=2)
    for between in (1, 2):
        inside = offset_translation.translate_to_target(known, between)
        assert isinstance(inside, ExactOffset | EarlierOffset)
        assert inside.downstream <= 1
    whole = matched([1, 9, 4, 5], [1, 9, 4, 5], optional=(1,))
    assert answers(whole, range(4)) == exact(0, 1, 2, 3), "nothing is gone"
    source = items([1, 9, HOLE, 4, 5], optional=(1,))
    differ = partition_log_alignment.align_logs(source, items([1, 9, 4, 5]), assume_unique=True)
    assert differ is not None
    assert answers(differ, range(4)) == exact(0, 1, 2, 2), "it has no equal"


def test_what_was_copied_twice_is_no_copy_of_what_was_aborted_behind_it():
    """7 and 8 may have been copied twice, or once with their equals that were aborted."""
    found = matched([1, 7, 8, 7, 8, 2], [1, 7, 8, 7, 8, 2], optional=(3, 4))
    known = partition_map(found)
    assert offset_translation.translate_to_target(known, 5) == ExactOffset(downstream=5)
    for between in (2, 3, 4):
        assert isinstance(offset_translation.translate_to_target(known, between), EarlierOffset)


def test_a_copy_of_what_the_cleaner_took_passes_over_no_equal_that_came_later():
    """Of the last three, of which each has an equal before it, one alone was copied."""
    gone: Log = [HOLE, HOLE]
    found = matched([*gone, 3, *gone, 9, 8, 9], [1, 9, 3, 9, 8, 9])
    assert (found.first_source, found.source_end) == (2, 3)
    assert answers(found, [2]) == exact(2)


def test_what_surely_has_no_copy_is_passed_over_by_nothing_that_had_equals():
    """5 and 8 were copied as they stood among the first, 6 never."""
    gone: Log = [HOLE] * 5
    found = matched([*gone, 5, 6, 7, 8], [5, 8, 3, 3, 4])
    assert (found.first_source, found.source_end) == (5, 6)


def test_what_others_wrote_is_passed_over():
    found = matched([1, 2, 3], [1, 77, 2, 78, 3])
    assert answers(found, range(3)) == exact(0, 2, 4)
    assert (found.matched_offsets, found.bounded_offsets) == (3, 0)


def test_what_the_cleaner_took_from_the_source_has_a_bound():
    found = matched([1, HOLE, HOLE, 4], [1, 2, 3, 4])
    known = partition_map(found)
    assert offset_translation.translate_to_target(known, 3) == ExactOffset(downstream=3)
    between = offset_translation.translate_to_target(known, 2)
    assert between == EarlierOffset(downstream=1, reread_max=2)


def test_what_stands_behind_the_last_that_was_found_is_counted():
    found = matched([1, 2, 3], [1, 2, 55, 56])
    assert (found.source_end, found.unmatched_tail) == (2, 2)
    known = partition_map(found)
    assert offset_translation.translate_to_target(known, 2) == ExactOffset(downstream=2)
    later = offset_translation.translate_to_target(known, 3)
    assert later == EarlierOffset(downstream=2, reread_max=1)


# Against the oracle


@dataclass
class World:
    """A source that is written, aborted and cleaned, and a mirror of it that its owners copy, step
    back with, write beside one another, and clean.

    What is aborted, and copied by Java all the same, has no equal where cleaners come: of two such
    the source may keep the first and the mirror the last (README).
    """

    random: Random
    alike: int
    source: dict[int, tuple[int, bool]] = field(default_factory=dict)
    target: dict[int, int] = field(default_factory=dict)
    numbers: itertools.count = field(default_factory=lambda: itertools.count(1))
    source_end: int = 0
    target_end: int = 0
    contents: dict[int, int] = field(default_factory=dict)
    copied: int = 0
    copied_ever: set[int] = field(default_factory=set)
    holes: set[int] = field(default_factory=set)
    target_holes: set[int] = field(default_factory=set)
    javas: bool = False
    cleans: bool = False

    def write(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            number = next(self.numbers)
            kept = self.random.randrange(5) > 0
            twin = self.alike and self.random.randrange(self.alike) == 0
            alone = self.javas and self.cleans and not kept
            self.contents[number] = -(number % 2) - 1 if twin and not alone else number
            self.source[self.source_end] = (number, kept)
            self.source_end += 1
        self.source_end += self.random.randrange(2)  # a marker

    def copy(self, upto: int | None = None) -> None:
        end = self.source_end if upto is None else upto
        for offset in range(self.copied, end):
            number, kept = self.source.get(offset, (0, False))
            if number and (kept or self.javas):
                self.target[self.target_end] = number
                self.copied_ever.add(number)
                self.target_end += 1
        self.copied = max(self.copied, end)
        self.target_end += self.random.randrange(2)

    def step_back(self) -> None:
        self.copied = max(0, self.copied - self.random.randint(0, 8))
        self.copy()

    def clean(self) -> None:
        """As cleaners do: of what is equal the earlier goes before the later, and what was aborted
        as soon as it is cleaned, by which nothing is superseded. Either log has a cleaner of its
        own, which need not have come to its end."""
        which = self.random.randint(1, 3)
        if which & 1:
            kept = {at: each for at, (each, keep) in self.source.items() if keep}
            aborted = self.source.keys() - kept.keys()
            self._clean(self.source, kept, self.source_end, self.holes, besides=aborted)
        if which & 2:
            self._clean(self.target, dict(self.target), self.target_end, self.target_holes)

    def _clean(self, log, records, end, holes, *, besides=frozenset()) -> None:
        upto = self.random.choice([end, self.random.randint(0, end)])
        equals: dict[int, list[int]] = {}
        for offset, number in records.items():
            if offset < upto:
                equals.setdefault(self.contents[number], []).append(offset)
        gone = {offset for offset in besides if offset < upto and self.random.randrange(4)}
        most = self.random.choice([2, 4, 8])
        for each in equals.values():
            superseded = self.random.randrange(most) == 0
            part = self.random.choice([len(each) - 1, self.random.randint(0, len(each))])
            gone.update(each if superseded else each[:part])
        for offset in gone:
            del log[offset]
            holes.add(offset)

    def lost(self, found: LogAlignment) -> list[int]:
        """Offsets that would never be copied: passed over, and not equal to any copy."""
        there = {self.contents[each] for each in (*self.target.values(), *self.copied_ever)}
        return [
            offset
            for offset, (number, kept) in self.source.items()
            if kept and found.first_source <= offset < found.source_end
            if self.contents[number] not in there
        ]

    def items_of(self, log, end, holes):
        made = LogDigests(start=0)
        for offset in range(end):
            if offset in log:
                number, kept = log[offset]
                made.add_item_digest(offset, self.contents[number], optional=not kept)
            else:
                made.skip_to_offset(offset + 1, hole=offset in holes)
        return made

    def match(self, *, all_differ: bool = False):
        there = {offset: (number, True) for offset, number in self.target.items()}
        return partition_log_alignment.align_logs(
            self.items_of(self.source, self.source_end, self.holes),
            self.items_of(there, self.target_end, self.target_holes),
            assume_unique=all_differ,
        )

    @property
    def written(self) -> dict[int, int]:
        """Aborted records, too: Java's mirror may hold them."""
        return {offset: number for offset, (number, _) in self.source.items()}

    def oracle(self, written: dict[int, int]) -> Oracle:
        """Nobody minds whether what was aborted is read, or what the cleaner took."""
        kept = {offset for offset, (_, keep) in self.source.items() if keep}
        return Oracle(
            written,
            self.target,
            source_end=self.source_end,
            target_end=self.target_end,
            gone=written.keys() - kept,
        )


def judge(seed: int, *, alike: int, cleans: bool, all_differ: bool = False) -> Verdict | None:
    world = World(random=Random(seed), alike=alike, cleans=cleans)
    world.javas = world.random.randrange(3) == 0
    for _ in range(world.random.randint(1, 12)):
        world.write()
        world.random.choice([world.copy, world.copy, world.copy, world.step_back])()
    if world.random.randrange(2):
        world.write()
    written = world.written
    if cleans:
        world.clean()
    found = world.match(all_differ=all_differ)
    if found is None:
        return None
    assert world.lost(found) == [], seed
    known = partition_map(found)
    oracle = world.oracle(written)
    ask = functools.partial(offset_translation.translate_to_target, known)
    verdict = oracle.judge(ask, range(found.source_end + 1))
    back = functools.partial(offset_translation.translate_to_source, known)
    verdict.add(oracle.judge_back(back, range(world.target_end)))
    return verdict


@settings(max_examples=examples.of(300))
@given(st.integers(0, 10**9), st.sampled_from([0, 2, 4, 8]), st.booleans())
def test_no_answer_is_wrong_or_ahead(seed, alike, cleans):
    """Of equal records some were cleaned away, too."""
    verdict = judge(seed, alike=alike, cleans=cleans)
    assert verdict is None or not verdict.wrong, str(verdict)


@settings(max_examples=examples.of(300))
@given(st.integers(0, 10**9), st.booleans())
def test_nor_is_any_where_it_is_known_that_all_differ(seed, cleans):
    verdict = judge(seed, alike=0, cleans=cleans, all_differ=True)
    assert verdict is None or not verdict.wrong, str(verdict)


def test_most_answers_are_exact():
    verdict = Verdict()
    for seed in range(30):
        found = judge(seed, alike=0, cleans=False)
        if found is not None:
            verdict.add(found)
    few = verdict.outcomes["EarlierOffset"] + verdict.outcomes["too old"]
    assert verdict.outcomes["ExactOffset"] > 5 * few, str(verdict)


def test_the_judge_sees_a_run_that_is_ahead():
    """Planted: a copy that is taken for one of the next record."""
    world = World(random=Random(1), alike=0)
    for _ in range(6):
        world.write()
        world.copy()
    found = world.match()
    assert found is not None
    stretches = tuple(
        each._replace(runs=tuple((source, delta + 1) for source, delta in each.runs))
        for each in found.ranges
    )
    known = partition_map(dataclasses.replace(found, ranges=stretches))
    ask = functools.partial(offset_translation.translate_to_target, known)
    verdict = world.oracle(world.written).judge(ask, range(found.source_end))
    assert verdict.wrong["ahead"] > 0


@given(memory=st.integers(0, 10**6), target=st.integers(0, 3_000))
def test_as_many_records_are_read_as_the_memory_holds_and_no_more(memory, target):
    def held(source):
        return 35 * (source + target) + 360 * min(source, target)

    source = partition_log_alignment.estimate_max_records(memory, target=target)
    assert held(source + 1) > memory
    assert held(source) <= memory or source == 0
