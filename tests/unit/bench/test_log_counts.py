"""The judge of every copy: what it must see in a broker's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import log_counts
from tests.bench.log_counts import Counts
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp

NOW_MS = 1_790_000_000_000


def data(count: int, base_offset: int) -> bytes:
    records = [Record(value=b"v" * 10, timestamp=NOW_MS) for _ in range(count)]
    return batches.data(records, Stamp(base_offset=base_offset))


def write(folder: Path, name: str, *parts: bytes) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"".join(parts))


def test_all_batches_of_all_segments_are_counted(tmp_path):
    first, second, third = data(3, 0), data(4, 3), data(5, 7)
    write(tmp_path / "t-0", "00000000000000000000.log", first, second)
    write(tmp_path / "t-0", "00000000000000000007.log", third)
    counted = log_counts.partition(tmp_path / "t-0")
    size = len(first) + len(second) + len(third)
    assert counted == Counts(records=12, batches=3, size=size)


def test_markers_of_transactions_are_not_records(tmp_path):
    marker = batches.marker(commit=True, timestamp=NOW_MS, stamp=Stamp(base_offset=0))
    write(tmp_path / "t-0", "00000000000000000000.log", marker, data(3, 1))
    assert log_counts.partition(tmp_path / "t-0").records == 3


def test_other_files_are_left_alone(tmp_path):
    write(tmp_path / "t-0", "00000000000000000000.log", data(3, 0))
    write(tmp_path / "t-0", "00000000000000000000.index", b"\0" * 100)
    assert log_counts.partition(tmp_path / "t-0").records == 3


@pytest.mark.parametrize("tail", [b"\0" * 200, b"\0\0\0"])
def test_what_is_just_being_written_is_not_counted(tmp_path, tail):
    write(tmp_path / "t-0", "00000000000000000000.log", data(3, 0), tail)
    assert log_counts.partition(tmp_path / "t-0").records == 3


def test_partitions_that_are_not_there_are_empty(tmp_path):
    write(tmp_path / "t-1", "00000000000000000000.log", data(3, 0))
    counted = log_counts.topic(tmp_path, "t", partitions=2)
    assert {number: each.records for number, each in counted.items()} == {0: 0, 1: 3}


def test_an_equal_copy_has_no_fault():
    assert log_counts.verdict({0: 10, 1: 20}, {0: 10, 1: 20}) == ""


def test_planted_loss_and_doubling_are_told_by_partition():
    """Also where the sums are equal."""
    told = log_counts.verdict({0: 10, 1: 20, 2: 30, 3: 5}, {0: 9, 1: 21, 2: 30})
    assert told == "partition 0 lost 1, partition 1 has 1 too many, partition 3 lost 5"
