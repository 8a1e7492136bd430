"""However the tail was made of the source, and wherever it begins and ends: it pairs with exactly
the records that it was made of, and with nothing else."""

from __future__ import annotations

import itertools
import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.formats import record_batch, record_codec
from mm2.replication import batch_size_limits, read_committed_batch_filter
from mm2.replication.batch_size_limits import BatchMergeLimits
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.outbound_batches import OffsetSpan
from mm2.replication.send_queue import PartitionSendQueue
from mm2.replication.target_log_tail import TargetTail
from mm2.replication.target_log_tail_matching import RequiredMatchingInput, TailMatcher
from tests.fakes import batches, odd_logs, scripts
from tests.fakes.transforms import Filter
from tests.support import examples

OURS = 7


@pytest.fixture(
    params=[batch_size_limits.DECODE_PART_RECORDS, 2],
    ids=["whole", "in parts"],
    autouse=True,
    scope="module",
)
def _part_records(request):
    """Of batches that are opened, so many records are read at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_size_limits, "DECODE_PART_RECORDS", request.param)
        yield


class Copied:
    """A log, copied by owners who joined and divided as they liked, from `source` on.

    `placed` is the target offset of each source offset; `behind` the source offset behind the last.
    """

    def __init__(self, rng, *, transform=None):
        self.rng, self.transform = rng, transform
        self.log = odd_logs.made(rng, batches_most=10)
        self.held: dict[int, bytes] = {}
        self.placed: dict[int, int] = {}
        self.start = self.end = rng.choice([0, 50])
        self.source, self.whole = -1, True
        self.divided = False
        outs = list(self.outs())
        first = rng.randint(0, len(outs))
        self.source = outs[first].source if first < len(outs) else self.log.end
        self.copied = outs[first : rng.randint(first, len(outs))]
        for out in self.copied:
            self.append(out)

    def outs(self):
        """All that is ever sent; the limits change on the way."""
        box = PartitionSendQueue(
            MemoryBudget(1 << 40),
            merge_limits=BatchMergeLimits(records=0),
            transform=self.transform,
        )
        position, rng = 0, self.rng
        while position < self.log.end:
            found = read_committed_batch_filter.scan_batches(
                memoryview(bytearray(self.log.fetch(position, rng.randint(1, 5)))),
                position=position,
                aborted=self.log.aborted_from(position),
                target_codec=rng.choice([None, None, 0, 3]),
            )
            position = found.position
            box.push_batches(found, old_before_ms=odd_logs.OLD_BEFORE_MS)
            box.limits.merge_limits.records = rng.choice(
                [0, 1, 8, batch_size_limits.NO_RECORD_LIMIT]
            )
            box.limits.reencoded_bytes_max = rng.choice([1, 200, 1 << 20])
            if rng.random() < 0.2:
                box.limits.halve_record_limit(count=rng.randint(2, 8), until=position)
            while box.stage_next_batch():
                self.divided = self.divided or len(box._staged) > 1
                yield box.pop_staged_batch()

    def append(self, out):
        if self.rng.random() < 0.3:
            self.end += self.rng.choice([1, 2])  # markers, and what somebody else wrote
        stored = bytearray(out.batch)
        record_batch.stamp_producer_fields(
            memoryview(stored),
            attributes=out.attributes & ~record_batch.TRANSACTIONAL,
            producer=(OURS, 0, 0),
        )
        struct.pack_into(">q", stored, 0, self.end)
        self.held[self.end] = bytes(stored)
        pieces = [*(out.offset_spans or [OffsetSpan(out.source, 0)]), OffsetSpan(-1, out.records)]
        for piece, following in itertools.pairwise(pieces):
            for place in range(piece.place, following.place):
                self.placed[piece.source + place - piece.place] = self.end + place
        self.end += out.records

    @property
    def behind(self):
        return max(self.placed, default=-1) + 1

    def pair(self):
        """In fetches of any size."""
        found = TargetTail(own_producers=frozenset({OURS}), start=self.start, marker=self.end + 5)
        for each in self.held.values():
            found.add_batch(record_batch.read_batch_header(memoryview(each)), memoryview(each))
        pairs = TailMatcher(
            tail=found.committed_batches,
            position=self.source,
            start=self.start,
            transform=self.transform,
        )
        need = RequiredMatchingInput.SOURCE
        while need is not RequiredMatchingInput.NOTHING:
            if need is RequiredMatchingInput.TARGET:
                batch = memoryview(self.held[pairs.next_offset])
                need = pairs.add_target_batch(record_batch.read_batch_header(batch), batch)
                continue
            if need is RequiredMatchingInput.YIELD:
                need = pairs.match_available_records()
                continue
            before = pairs.position
            fetched = self.log.fetch(before, self.rng.randint(1, 4))
            aborted = tuple(self.log.aborted_from(before))
            need = pairs.add_source_records(
                scripts.records(fetched, aborted=aborted, end=self.log.end)
            )
            while need is RequiredMatchingInput.YIELD:
                need = pairs.match_available_records()
            if need is RequiredMatchingInput.SOURCE and pairs.position == before:
                break
        pairs.close()
        assert (pairs.memory_budget.held_bytes, pairs.memory_budget.decoded_bytes) == (0, 0)
        return pairs


def place(runs, source):
    return source + [run.delta for run in runs if run.source <= source][-1]


def check(copied, pairs):
    assert (pairs.mismatch, pairs.is_complete) == ("", True)
    seen = [each.offset for each in copied.log.seen]
    left_out = {at for at in seen if at not in copied.placed and at >= copied.source}
    assert pairs.position >= copied.behind
    if copied.transform is None:
        assert not [at for at in left_out if at < pairs.position]
    assert {at: place(pairs.runs, at) for at in copied.placed} == copied.placed
    assert all(one.delta != two.delta for one, two in itertools.pairwise(pairs.runs))


@settings(deadline=None, max_examples=examples.of(150))
@given(st.integers(0, 1 << 40))
def test_any_tail_pairs_with_the_records_that_it_was_made_of(seed):
    copied = Copied(random.Random(seed))
    check(copied, copied.pair())


@settings(deadline=None, max_examples=examples.of(40))
@given(st.integers(0, 1 << 40))
def test_under_a_transform_too(seed):
    copied = Copied(random.Random(seed), transform=Filter(b"", change=b"new "))
    check(copied, copied.pair())


@settings(deadline=None, max_examples=examples.of(80))
@given(st.integers(0, 1 << 40))
def test_one_changed_record_ends_the_pairing_there(seed):
    rng = random.Random(seed)
    copied = Copied(rng)
    if not copied.placed:
        return
    victim = rng.choice(list(copied.placed))
    changed(copied, copied.placed[victim])
    pairs = copied.pair()
    assert pairs.mismatch
    assert not pairs.is_complete
    assert pairs.matched_to <= copied.placed[victim]
    # What is copied again from `position` on is all that did not pair, and nothing that did.
    paired = [at for at, target in copied.placed.items() if target < pairs.matched_to]
    assert all(at < pairs.position for at in paired)
    assert all(at >= pairs.position for at in copied.placed if at not in paired)


def changed(copied, target):
    """The record at that target offset has another timestamp."""
    base = max(at for at in copied.held if at <= target)
    view = memoryview(copied.held[base])
    header = record_batch.read_batch_header(view)
    found = record_codec.decode_batch(header, view)
    at = target - base
    found[at] = found[at]._replace(timestamp=found[at].timestamp + 1)
    stored = record_codec.encode_batch(
        found, codec=header.attributes & record_batch.CODEC_MASK, keep_offsets=True
    )
    struct.pack_into(">q", stored, 43, OURS)
    copied.held[base] = batches.rechecked(stored)


def test_the_tails_are_of_all_kinds():
    """Else the tests above would say little."""
    wanted = {"", "small batches were merged", "compaction left gaps in the batch"}
    divided, later = 0, 0
    for seed in range(120):
        copied = Copied(random.Random(seed))
        wanted -= {each.reencode_reason for each in copied.copied}
        divided += copied.divided
        later += copied.source > 0
    assert wanted == set()
    assert divided > 5
    assert later > 20
