"""Whatever stands in the source and whatever the target refuses: exactly the source's records come
out of `mm2.replication.send_queue`, each once and in order."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.formats import record_batch, record_codec
from mm2.formats.record_codec import BatchRecord
from mm2.replication import batch_size_limits, read_committed_batch_filter
from mm2.replication.batch_size_limits import BatchMergeLimits
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.outbound_batches import OffsetSpan, OutboundBatch
from mm2.replication.send_queue import DroppedBatchPosition, PartitionSendQueue
from tests.fakes import odd_logs
from tests.fakes.transforms import Filter
from tests.support import examples


@pytest.fixture(
    params=[batch_size_limits.DECODE_PART_RECORDS, 2], ids=["whole", "in parts"], autouse=True
)
def part_records(request, monkeypatch):
    """Of batches that must be opened, so many records are read at once."""
    monkeypatch.setattr(batch_size_limits, "DECODE_PART_RECORDS", request.param)
    return request.param


class Sender:
    """Sends a log through an outbox to a target that refuses what it likes.

    `sent` holds what the target took, `refused` how often it did not.
    """

    def __init__(self, log, rng, *, transform=None):
        self.parts = 0
        self.log, self.rng = log, rng
        self.position = rng.choice([0, log.end // 2, rng.randint(0, log.end)])
        if rng.random() < 0.5:
            self.position = 0
        self.start = self.position
        self.codec = rng.choice([None, None, None, 0, 1, 2, 3, 4])
        self.held = MemoryBudget(1 << 40)
        joining = BatchMergeLimits(
            records=rng.choice([0, 1, 4, 16, batch_size_limits.NO_RECORD_LIMIT]),
            bytes=rng.choice([80, 500, 16 << 10]),
        )
        self.box = PartitionSendQueue(
            self.held, merge_limits=joining, target_codec=self.codec, transform=transform
        )
        if rng.random() < 0.3:
            self.box.limits.reencoded_bytes_max = rng.choice([1, 100, 1000])
        self.takes_bytes = rng.choice([1 << 30, 1 << 30, 200, 1000, 5000])
        self.bad: frozenset[int] = frozenset()
        if log.seen and rng.random() < 0.4:
            self.bad = frozenset({rng.choice(log.seen).offset})
        self.sent: list[OutboundBatch] = []
        self.content: list[BatchRecord] = []
        self.refused = 0
        self.divided = False

    def run(self):
        """To the log's end; a record that nothing helps is taken when it is alone."""
        while True:
            self.fetch()
            while self.box.stage_next_batch():
                self.box.check_invariants()
                self.parts += self.box._decoder is not None
                self.divided = self.divided or len(self.box._staged) > 1
                if self.rng.random() < 0.05:
                    self.go_back(self.box.drop_all_batches())
                    break
                out = self.box.pop_staged_batch()
                self.held.release(out.held_bytes, decoded=out.is_decoded)
                self.box.check_invariants()
                if not self.takes(out):
                    break
            assert self.box.unreadable is None
            if not self.box.queued_batches and self.position >= self.log.end:
                assert (self.held.held_bytes, self.box.queued_bytes) == (0, 0)
                return

    def fetch(self):
        found = read_committed_batch_filter.scan_batches(
            memoryview(bytearray(self.log.fetch(self.position, self.rng.randint(1, 8)))),
            position=self.position,
            aborted=self.log.aborted_from(self.position),
            target_codec=self.codec,
        )
        assert found.obstacle is None
        self.position = found.position
        self.box.push_batches(found, old_before_ms=odd_logs.OLD_BEFORE_MS)

    def takes(self, out):
        content = opened(out)
        refused = ""
        if len(out.batch) > self.takes_bytes:
            refused = "too large"
        elif self.bad & {each.offset for each in content}:
            refused = "a bad record"
        if not refused:
            self.sent.append(out)
            self.content.extend(content)
            return True
        self.refused += 1
        assert self.refused < 400
        allowed = self.box.limits
        if refused == "too large":
            divided = allowed.halve_size_limit(size=len(out.batch), count=out.records)
        else:
            divided = allowed.halve_record_limit(count=out.records, until=out.next_source)
        assert divided == (out.records > 1)
        if not divided:
            allowed.reset()
            self.takes_bytes = max(self.takes_bytes, len(out.batch))
            self.bad = frozenset() if refused == "a bad record" else self.bad
        self.go_back(self.box.drop_all_batches())
        self.go_back(DroppedBatchPosition(out.source, out.source_epoch))
        return False

    def go_back(self, first):
        if first is not None:
            self.position = first.source


def opened(out):
    """Its records, at the source offsets that its pieces name."""
    header = record_batch.read_batch_header(out.batch)
    assert record_batch.has_valid_crc(out.batch, header)
    assert (header.record_count, header.last_offset_delta) == (out.records, out.records - 1)
    pieces = [*(out.offset_spans or [OffsetSpan(out.source, 0)]), OffsetSpan(-1, out.records)]
    sources = [
        piece.source + place - piece.place
        for piece, following in itertools.pairwise(pieces)
        for place in range(piece.place, following.place)
    ]
    assert sources[0] == out.source
    assert sources[-1] < out.next_source
    found = record_codec.decode_batch(header, out.batch)
    assert max(each.timestamp for each in found) == out.max_timestamp
    return [each._replace(offset=at) for each, at in zip(found, sources, strict=True)]


def expected(sender, left_out=()):
    return [
        each
        for each in sender.log.seen
        if each.offset >= sender.start
        and record_codec.decode_record_body(each.body).value not in left_out
    ]


def check(sender, wanted):
    assert sender.content == wanted
    for out in sender.sent:
        codecs = {out.attributes & record_batch.CODEC_MASK}
        assert sender.codec is None or codecs == {sender.codec}
        assert not out.attributes & record_batch.LOG_APPEND_TIME
    for one, two in itertools.pairwise(sender.sent):
        assert one.next_source <= two.source


@settings(deadline=None, max_examples=examples.of(150))
@given(st.integers(0, 1 << 40))
def test_exactly_the_records_of_the_source_come_out(seed):
    rng = random.Random(seed)
    sender = Sender(odd_logs.made(rng), rng)
    sender.run()
    check(sender, expected(sender))


@settings(deadline=None, max_examples=examples.of(50))
@given(st.integers(0, 1 << 40))
def test_a_transform_leaves_out_and_changes_what_it_says_and_nothing_else(seed):
    rng = random.Random(seed)
    log = odd_logs.made(rng)
    gone = tuple(rng.sample([b"", None], k=1))
    sender = Sender(log, rng, transform=Filter(*gone, change=b"new "))
    sender.run()
    wanted = []
    for each in expected(sender, left_out=gone):
        fields = record_codec.decode_record_body(each.body)
        value = b"new " + fields.value if fields.value is not None else None
        wanted.append(
            each._replace(body=record_codec.encode_record_body(fields._replace(value=value)))
        )
    check(sender, wanted)


def test_the_logs_hold_all_that_is_odd(part_records):
    """Else the tests above would say little."""
    found = {"parts"} if part_records == 2 else set()
    found |= {"opened", "joined", "divided", "refused", "passed", "aborted", "old", "gaps"}
    for seed in range(60):
        rng = random.Random(seed)
        sender = Sender(odd_logs.made(rng), rng)
        sender.run()
        reasons = {each.reencode_reason for each in sender.sent}
        found -= {"passed"} if "" in reasons else set()
        found -= {"joined"} if "small batches were merged" in reasons else set()
        found -= {"opened"} if "the source uses LogAppendTime" in reasons else set()
        found -= {"gaps"} if "compaction left gaps in the batch" in reasons else set()
        found -= {"divided"} if sender.divided else set()
        found -= {"parts"} if sender.parts else set()
        found -= {"refused"} if sender.refused else set()
        found -= {"aborted"} if sender.log.aborted else set()
        found -= {"old"} if any(each[16] < 2 for each in sender.log.held) else set()
    assert found == set()


@pytest.mark.parametrize("plant", ["changed", "lost", "doubled", "shifted"])
def test_the_comparison_finds_what_is_planted(plant):
    rng = random.Random(5)
    sender = Sender(odd_logs.made(rng), rng)
    sender.run()
    content = sender.content
    assert len(content) > 3
    match plant:
        case "changed":
            content[2] = content[2]._replace(timestamp=content[2].timestamp + 1)
        case "lost":
            del content[2]
        case "doubled":
            content.insert(2, content[2])
        case "shifted":
            content[2] = content[2]._replace(offset=content[2].offset + 1)
    with pytest.raises(AssertionError):
        check(sender, expected(sender))
