"""Batches of ours as Java reads them, and Java's as we open them: several hundred in one JVM."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from mm2.formats import compression, record_batch, record_codec, record_set_splitter
from mm2.formats.compression import DecompressionError
from mm2.formats.record_codec import BatchRecord, MalformedRecordsError, RecordFields
from mm2.formats.record_set_splitter import DamagedBatchError, MalformedLegacyMessageError
from mm2.replication import batch_size_limits, read_committed_batch_filter
from mm2.replication.batch_size_limits import BatchMergeLimits
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.send_queue import PartitionSendQueue
from tests.fakes import batches, odd_logs
from tests.interop import java_records
from tests.interop.java_records import Build, Reading

pytestmark = pytest.mark.integration

NOW_MS = 1_790_000_000_000
CODECS = sorted(compression.CODEC_NAMES)
HUGE = 10 << 20
Records = list[BatchRecord]


@dataclass(slots=True)
class Questions:
    """What Java is asked, under a name each, with the records that must come of it."""

    asked: list[bytes | Build] = field(default_factory=list)
    expected: list[Records] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, name: str, question: bytes | Build, expected: Records) -> None:
        self.names.append(name)
        self.asked.append(question)
        self.expected.append(expected)


def some_records(rng: random.Random, *, dense: bool, headers: bool = True) -> Records:
    found = []
    at = 0 if dense else rng.choice([0, 5, 1 << 40])
    around = rng.choice([NOW_MS, NOW_MS, 0, -1, 1 << 62])
    for _ in range(rng.choice([1, 2, 3, 30, 300])):
        fields = RecordFields(
            rng.choice([None, b"", rng.randbytes(12)]),
            rng.choice([None, b"", rng.randbytes(40), b"again " * 50]),
            some_headers(rng) if headers else (),
        )
        timestamp = around + (rng.choice([0, 1, 700, 90_000, 1 << 40]) if around >= 0 else 0)
        found.append(BatchRecord(at, timestamp, record_codec.encode_record_body(fields)))
        at += 1 if dense else rng.choice([1, 1, 1, 2, 60, 5000])
    return found


def some_headers(rng: random.Random) -> tuple[tuple[bytes, bytes | None], ...]:
    names = [b"", b"trace", "größe".encode(), b"trace"]
    return tuple(
        (rng.choice(names), rng.choice([None, b"", rng.randbytes(9)]))
        for _ in range(rng.choice([0, 0, 1, 3]))
    )


def huge_record() -> BatchRecord:
    noise = random.Random(1).randbytes(HUGE // 2)
    return BatchRecord(
        0,
        NOW_MS,
        record_codec.encode_record_body(RecordFields(b"k", noise + bytes(HUGE - len(noise)))),
    )


# Ours, for Java to read


def built(questions: Questions) -> None:
    for seed in range(40):
        for codec in CODECS:
            rng = random.Random(f"{seed} {codec}")
            dense = rng.random() < 0.5
            found = some_records(rng, dense=dense)
            batch = bytes(record_codec.encode_batch(found, codec=codec, keep_offsets=not dense))
            questions.add(f"built {seed} {codec}", batch, found)
    for codec in CODECS:
        huge = [huge_record(), BatchRecord(1, NOW_MS + 1, b"\1\1\0")]
        questions.add(f"huge {codec}", bytes(record_codec.encode_batch(huge, codec=codec)), huge)


def joined(questions: Questions) -> None:
    """Joined, divided and opened batches of odd logs, stamped as they go out."""
    for seed in range(60):
        log = odd_logs.made(random.Random(seed))
        box = PartitionSendQueue(
            MemoryBudget(1 << 30),
            merge_limits=BatchMergeLimits(records=batch_size_limits.NO_RECORD_LIMIT),
        )
        box.limits.reencoded_bytes_max = random.Random(seed).choice([500, 1 << 20])
        found = read_committed_batch_filter.scan_batches(
            memoryview(bytearray(b"".join(log.held))),
            position=0,
            aborted=log.aborted_from(0),
        )
        box.push_batches(found, old_before_ms=odd_logs.OLD_BEFORE_MS)
        left = iter(log.seen)
        number = 0
        while box.stage_next_batch():
            out = box.pop_staged_batch()
            kept = out.attributes & record_batch.CODEC_MASK
            record_batch.stamp_producer_fields(out.batch, attributes=kept, producer=(7, 3, number))
            expected = [next(left)._replace(offset=at) for at in range(out.records)]
            questions.add(
                f"log {seed}, batch {number}: {out.reencode_reason}", bytes(out.batch), expected
            )
            number += 1


# Java's, for us to open


def builds(questions: Questions) -> None:
    for seed in range(20):
        for magic in (0, 1, 2):
            for codec in CODECS[: 5 if magic == 2 else 4]:
                rng = random.Random(f"{seed} {magic} {codec}")
                found = some_records(rng, dense=rng.random() < 0.3, headers=magic == 2)
                append_ms = NOW_MS + 123 if magic and rng.random() < 0.4 else None
                build = Build(
                    records=found,
                    magic=magic,
                    codec=codec,
                    append_ms=append_ms,
                    transactional=magic == 2 and rng.random() < 0.3,
                )
                name = f"{seed}: v{magic} {compression.CODEC_NAMES[codec]} {append_ms}"
                questions.add(name, build, as_seen(found, magic, append_ms))
    for codec in CODECS:
        huge = [huge_record()]
        questions.add(f"huge {codec}", Build(records=huge, magic=2, codec=codec), huge)


def as_seen(found: Records, magic: int, append_ms: int | None) -> Records:
    if magic == 0:
        return [each._replace(timestamp=-1) for each in found]
    if append_ms is not None:
        return [each._replace(timestamp=append_ms) for each in found]
    return found


def opened(fetched: bytes) -> Records:
    """As the copy does it: the checksums are looked at too."""
    found = read_committed_batch_filter.scan_batches(
        memoryview(bytearray(fetched)), position=0, aborted=()
    )
    assert found.obstacle is None, found.obstacle
    return [
        record
        for each in found.batches
        for record in record_codec.decode_batch(each.header, each.batch)
    ]


# Damaged, for both


def damaged(questions: Questions) -> None:
    """A byte or two are changed, and the checksums fit."""
    for seed in range(300):
        rng = random.Random(seed)
        found = some_records(rng, dense=rng.random() < 0.5)[:5]
        batch = bytearray(
            record_codec.encode_batch(found, codec=rng.choice([0, 0, *CODECS]), keep_offsets=True)
        )
        for _ in range(rng.choice([1, 1, 2])):
            batch[rng.randrange(61, min(len(batch), 61 + 60))] = rng.randrange(256)
        questions.add(f"damaged {seed}", batches.rechecked(batch), [])


def opened_or_refused(fetched: bytes) -> Records | None:
    try:
        return [
            record
            for header, batch in record_set_splitter.iter_batches(memoryview(fetched))
            for record in record_codec.decode_batch(header, batch)
        ]
    except (
        DamagedBatchError,
        MalformedRecordsError,
        DecompressionError,
        MalformedLegacyMessageError,
    ):
        return None


# The answers


@dataclass(slots=True)
class Answers:
    """Both lists are in the order of the questions."""

    questions: Questions
    readings: list[Reading]


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answers]:
    """By what was asked; one JVM answers all."""
    asked = {"built": Questions(), "joined": Questions(), "builds": Questions()}
    asked["damaged"] = Questions()
    built(asked["built"])
    joined(asked["joined"])
    builds(asked["builds"])
    damaged(asked["damaged"])
    every = [each for questions in asked.values() for each in questions.asked]
    readings = iter(java_records.ask(tmp_path_factory.mktemp("oracle"), every))
    return {
        name: Answers(questions, [next(readings) for _ in questions.asked])
        for name, questions in asked.items()
    }


def differences(found: Answers) -> list[str]:
    """Names of the questions that Java answers with other records than expected."""
    return [
        f"{name}: {reading.failure or 'other records'}"
        for name, expected, reading in zip(
            found.questions.names, found.questions.expected, found.readings, strict=True
        )
        if reading.failure or reading.records != expected
    ]


def test_java_reads_what_we_build_as_exactly_these_records(java: dict[str, Answers]) -> None:
    assert len(java["built"].readings) > 200
    assert differences(java["built"]) == []


def test_java_reads_what_was_joined_divided_and_opened_as_the_sources_records(
    java: dict[str, Answers],
) -> None:
    names = java["joined"].questions.names
    assert len(names) > 150
    for why in ("small batches were merged", "compaction left gaps", "LogAppendTime"):
        assert any(why in each for each in names), why
    assert differences(java["joined"]) == []


def test_java_reads_its_own_sets_as_what_they_were_built_of(java: dict[str, Answers]) -> None:
    assert differences(java["builds"]) == []


def test_we_open_what_java_builds_as_exactly_what_java_reads(java: dict[str, Answers]) -> None:
    assert len(java["builds"].readings) > 200
    wrong = [
        name
        for name, reading in zip(
            java["builds"].questions.names, java["builds"].readings, strict=True
        )
        if opened(reading.set) != reading.records
    ]
    assert wrong == []


def test_damaged_batches_that_both_read_hold_the_same_for_both(java: dict[str, Answers]) -> None:
    both, wrong = 0, []
    for name, reading in zip(
        java["damaged"].questions.names, java["damaged"].readings, strict=True
    ):
        ours = opened_or_refused(reading.set)
        if ours is None or reading.failure:
            continue
        both += 1
        if said(ours) != said(reading.records):
            wrong.append(name)
    assert both > 100
    assert wrong == []


def test_we_refuse_only_what_java_refuses_or_what_does_not_follow_each_other(
    java: dict[str, Answers],
) -> None:
    for name, reading in zip(
        java["damaged"].questions.names, java["damaged"].readings, strict=True
    ):
        if reading.failure or opened_or_refused(reading.set) is not None:
            continue
        offsets = [each.offset for each in reading.records]
        header = record_batch.read_batch_header(memoryview(reading.set))
        within = header.base_offset <= offsets[0] and offsets[-1] <= header.last_offset
        assert offsets != sorted(set(offsets)) or not within, name


def said(found: Records) -> list[tuple[int, int, RecordFields]]:
    """Bodies may be written in more than one way, and Java takes names of headers for UTF-8."""
    return [
        (each.offset, each.timestamp, as_text(record_codec.decode_record_body(each.body)))
        for each in found
    ]


def as_text(fields: RecordFields) -> RecordFields:
    names = [name.decode(errors="ignore").replace("\ufffd", "") for name, _ in fields.headers]
    return fields._replace(
        headers=tuple(
            (name.encode(), value) for name, (_, value) in zip(names, fields.headers, strict=True)
        )
    )


def test_a_planted_change_is_found(
    java: dict[str, Answers], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In a key, a value, a header, a timestamp and an offset; and a checksum that does not fit."""
    fields = RecordFields(b"key", b"value", ((b"name", b"content"),))
    found = [
        BatchRecord(at, NOW_MS + at, record_codec.encode_record_body(fields)) for at in range(3)
    ]
    batch = bytes(record_codec.encode_batch(found, codec=0))
    at = [batch.index(part) for part in (b"key", b"value", b"name", b"content")]
    first = record_batch.HEADER_BYTES
    questions = Questions()
    questions.add("untouched", batch, found)
    for place in (*at, 34, first + 2 + 1):
        changed = bytearray(batch)
        changed[place] ^= 2
        questions.add(f"changed at {place}", batches.rechecked(changed), found)
        questions.add(f"not rechecked at {place}", bytes(changed), found)
    readings = java_records.ask(tmp_path_factory.mktemp("planted"), questions.asked)
    wrong = differences(Answers(questions, readings))
    assert [each.split(": ")[0] for each in wrong] == questions.names[1:]
    assert all("corrupt" in each.lower() for each in wrong if each.startswith("not"))
