"""What never left a cluster: counted, and exported whole."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import pytest

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.system.system_clock import SystemClock
from mm2.failover import unreplicated_records
from mm2.failover.foreign_record_scan import ScanBudget
from mm2.failover.partition_thread_pool import PartitionThreadPool
from mm2.failover.unreplicated_offset_ranges import PartitionScanInputs, UnreplicatedTail
from mm2.failover.unreplicated_records import UnreplicatedRecordFinder
from mm2.formats import record_codec
from mm2.offsets.log_start_and_end_offsets import LogBounds
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp

EAST, WEST = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
OURS, THEIRS, LOCAL = 70, 80, 90
CLOCK = SystemClock()


def batch(base: int, count: int, *, producer: int = LOCAL, codec: int = 0) -> bytes:
    made = [
        Record(
            value=f"value {base + at}".encode(),
            key=None if at % 2 else b"key",
            timestamp=1_000 + base + at,
            headers=((b"h", None), (b"i", b"\xff")),
        )
        for at in range(count)
    ]
    stamp = Stamp(base_offset=base, producer_id=producer, attributes=codec)
    return batches.data(made, stamp, codec=codec)


@dataclass
class FakeQuestions:
    """Logs as lists of (first, last, bytes); a fetch gives at most two batches."""

    logs: dict[TopicPartition, list[tuple[int, int, bytes]]]
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    fails: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def find_leader(self, topic: str, partition: int = 0) -> int:
        self.asked = TopicPartition(topic, partition)
        return 1

    def send_request(self, to: object, message: object) -> Any:
        found = SimpleNamespace(error_code=0, offset=self.starts.get(self.asked, 0))
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[found])])

    def fetch(self, topic: str, offset: int, *, partition: int = 0) -> Any:
        if self.fails:
            self.fails -= 1
            raise RetriableError("away")
        log = self.logs[TopicPartition(topic, partition)]
        found = [data for _, last, data in log if last >= offset][:2]
        return SimpleNamespace(records=b"".join(found))


def log(*made: tuple[int, int, int]) -> list[tuple[int, int, bytes]]:
    """Of (first offset, records, producer)."""
    return [
        (base, base + count - 1, batch(base, count, producer=producer))
        for base, count, producer in made
    ]


def begin(**given: Any) -> PartitionScanInputs:
    usual: dict[str, Any] = {
        "ends": LogBounds(start=0, end=30),
        "map_end": 10,
        "flow_producers": frozenset({OURS}),
        "mirror": WEST,
        "mirror_ends": LogBounds(start=0, end=12),
        "mirror_next": 12,
        "reverse_producers": frozenset({THEIRS}),
    }
    return PartitionScanInputs(**usual | given)


def crew(questions: FakeQuestions) -> PartitionThreadPool:
    stands_in: Any = questions
    return PartitionThreadPool(connect=lambda: stands_in, clock=CLOCK)


def find(
    there: FakeQuestions, here: FakeQuestions, wanted: PartitionScanInputs
) -> UnreplicatedTail:
    finder = UnreplicatedRecordFinder(destination_pool=crew(there), origin_pool=crew(here))
    return finder.find_unreplicated_records({EAST: wanted})[EAST]


NOTHING = FakeQuestions({WEST: [(0, 11, batch(0, 12))]})
BORN = FakeQuestions({EAST: log((0, 10, LOCAL), (10, 5, LOCAL), (15, 10, OURS), (25, 5, -1))})


def test_records_behind_the_map_that_others_wrote_are_counted():
    found = find(BORN, NOTHING, begin())
    assert found.ranges is not None
    assert [each[:3] for each in found.ranges] == [(10, 14, 5), (25, 29, 5)]
    assert (found.counted, found.first_unreplicated_offset, found.origin_end, found.end) == (
        10,
        10,
        0,
        30,
    )
    told = found.summarize_records()
    assert (told.records, told.start, told.first_ms, told.last_ms) == (10, 10, 1_010, 1_029)


def test_what_had_arrived_and_was_not_written_down_is_passed():
    here = FakeQuestions({WEST: log((12, 3, THEIRS), (15, 2, LOCAL))})
    found = find(BORN, here, begin(mirror_ends=LogBounds(start=0, end=17)))
    assert found.ranges is not None
    assert [each[:3] for each in found.ranges] == [(13, 14, 2), (25, 29, 5)]
    assert (found.counted, found.origin_end) == (7, 15)


def test_what_was_brought_ends_behind_its_last_record():
    """A group that has read it commits the offset behind it, and not behind markers."""
    here = FakeQuestions({WEST: log((2, 3, THEIRS), (5, 7, LOCAL))})
    assert find(BORN, here, begin()).origin_end == 5


def test_nothing_left_ends_where_the_log_does():
    found = find(BORN, NOTHING, begin(map_end=30))
    assert (found.ranges, found.first_unreplicated_offset, found.summarize_records().records) == (
        (),
        30,
        0,
    )


def test_what_retention_has_taken_is_not_read():
    there = FakeQuestions({EAST: log((25, 5, LOCAL))}, starts={EAST: 25})
    found = find(there, NOTHING, begin(ends=LogBounds(start=25, end=30)))
    assert found.counted == 5


def test_a_broker_that_is_away_for_a_moment_is_asked_again():
    there = FakeQuestions(BORN.logs, fails=2)
    assert find(there, NOTHING, begin()).counted == 10


def test_what_does_not_answer_in_time_is_not_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mm2.failover.unreplicated_records.FIND_TIMEOUT_S", 0.0)
    found = find(BORN, NOTHING, begin())
    assert (found.ranges, found.origin_end, found.counted) == (None, 12, 0)
    monkeypatch.setattr("mm2.failover.unreplicated_records.FIND_TIMEOUT_S", 0.5)
    away = FakeQuestions(BORN.logs, fails=1_000)
    assert find(away, NOTHING, begin()).ranges is None


def test_too_much_to_read_is_not_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mm2.failover.foreign_record_scan.MAX_SCAN_BYTES", 1)
    found = find(BORN, NOTHING, begin())
    assert (found.ranges, found.first_unreplicated_offset, found.summarize_records().records) == (
        None,
        None,
        None,
    )


@pytest.mark.parametrize("codec", [0, 1])
def test_an_export_holds_each_record_whole(tmp_path: Path, codec: int):
    log_there = [
        (0, 9, batch(0, 10, codec=codec)),
        (10, 14, batch(10, 5, codec=codec)),
        (15, 24, batch(15, 10, producer=OURS)),
        (25, 29, batch(25, 5, codec=codec)),
    ]
    there = FakeQuestions({EAST: log_there})
    tail = find(there, NOTHING, begin(map_end=12))
    path = tmp_path / "tail.jsonl"
    count = unreplicated_records.export_records(
        path,
        [tail],
        cluster="east",
        move="west->east 1",
        connect=lambda: there,  # type: ignore[arg-type,return-value]
        clock=CLOCK,
    )
    first, *lines = map(json.loads, path.read_text().splitlines())
    assert first == {"v": 1, "cluster": "east", "move": "west->east 1", "records": 8}
    assert path.stat().st_mode & 0o777 == 0o600
    assert count == len(lines) == 8
    assert [each["offset"] for each in lines] == [12, 13, 14, 25, 26, 27, 28, 29]
    assert lines[0] == {
        "topic": "orders",
        "partition": 0,
        "offset": 12,
        "timestamp_ms": 1_012,
        "key": base64.b64encode(b"key").decode(),
        "value": base64.b64encode(b"value 12").decode(),
        "headers": [["h", None], ["i", base64.b64encode(b"\xff").decode()]],
    }
    assert lines[1]["key"] is None
    assert list(tmp_path.iterdir()) == [path]


def test_an_export_holds_each_record_of_many_tiny_batches(tmp_path: Path):
    there = FakeQuestions(
        {EAST: log(*((10 + number, 1, LOCAL) for number in range(15)), (25, 5, OURS))}
    )
    tail = find(there, NOTHING, begin(map_end=12))
    assert tail.ranges is not None
    assert [each[:3] for each in tail.ranges] == [(12, 24, 13)]
    path = tmp_path / "tail.jsonl"
    assert exported(path, there, tail) == 13
    lines = [json.loads(each) for each in path.read_text().splitlines()[1:]]
    assert [each["offset"] for each in lines] == list(range(12, 25))


def test_an_export_decodes_large_batches_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    there = FakeQuestions({EAST: log((10, 20, LOCAL))})
    tail = find(there, NOTHING, begin(map_end=12))
    monkeypatch.setattr(unreplicated_records, "_MAX_DECODED_RECORDS", 8)
    monkeypatch.setattr(record_codec, "DECODED_RECORDS_MAX", 8)
    path = tmp_path / "tail.jsonl"
    assert exported(path, there, tail) == tail.counted
    lines = [json.loads(each) for each in path.read_text().splitlines()[1:]]
    assert [each["offset"] for each in lines][-15:] == list(range(15, 30))


def test_more_stretches_than_there_is_room_for_are_not_counted(monkeypatch: pytest.MonkeyPatch):
    rooms = [ScanBudget(1), ScanBudget(2)]
    for room, counted in zip(rooms, (None, 10), strict=True):
        monkeypatch.setattr("mm2.failover.unreplicated_records.ScanBudget", lambda one=room: one)
        assert find(BORN, NOTHING, begin()).summarize_records().records == counted


def exported(path: Path, there: FakeQuestions, tail: UnreplicatedTail, **given: Any) -> int:
    usual: dict[str, Any] = {"cluster": "east", "move": "west->east 1", "clock": CLOCK}
    return unreplicated_records.export_records(
        path,
        [tail],
        connect=lambda: there,  # type: ignore[arg-type,return-value]
        **usual | given,
    )


@pytest.mark.parametrize("there_already", ['{"v":1,"cluster":"east","move":"another"}\n', "mine\n"])
def test_an_export_overwrites_nothing_but_its_own(tmp_path: Path, there_already: str):
    path, tail = tmp_path / "tail.jsonl", find(BORN, NOTHING, begin())
    path.write_text(there_already)
    with pytest.raises(FatalError, match="already exists"):
        exported(path, BORN, tail)
    assert path.read_text() == there_already
    path.unlink()
    assert [exported(path, BORN, tail) for _ in range(2)] == [10, 10]


def test_an_export_waits_for_no_pipe_of_another_user(tmp_path: Path):
    path, tail = tmp_path / "tail.jsonl", find(BORN, NOTHING, begin())
    os.mkfifo(path)
    with pytest.raises(FatalError, match="already exists"):
        exported(path, BORN, tail)


def test_an_export_that_lacks_what_was_counted_is_none(tmp_path: Path):
    tail = find(BORN, NOTHING, begin())
    there = FakeQuestions({EAST: log((12, 3, LOCAL), (25, 5, LOCAL))})
    with pytest.raises(RetriableError, match="10 records were counted, but 8 found"):
        exported(tmp_path / "tail.jsonl", there, tail)
    assert list(tmp_path.iterdir()) == []


class PassingClock:
    """An hour a look."""

    s = 0.0

    def now_s(self) -> float:
        self.s += 3600.0
        return self.s

    def wall_ms(self) -> int:
        return 0


def test_an_export_that_finds_nothing_ends(tmp_path: Path):
    tail = find(BORN, NOTHING, begin())
    with pytest.raises(RetriableError, match="no progress at offset 10"):
        exported(tmp_path / "tail.jsonl", FakeQuestions({EAST: []}), tail, clock=PassingClock())
    there = FakeQuestions({EAST: log((30, 5, LOCAL))})
    with pytest.raises(RetriableError, match="but 0 found"):
        exported(tmp_path / "tail.jsonl", there, tail)
