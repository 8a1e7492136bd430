"""What batches of a few kilobytes that unpack to hundreds of megabytes cost a copy: each case runs
in a process of its own, whose peak memory says so."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from mm2.formats import compression, primitive_types, record_batch
from tests.fakes import batches, scripts
from tests.fakes.batches import Stamp
from tests.support import mirror

BUDGET = 64 << 20
MEGABYTE = 1 << 20
FACTOR = 4
"""Times `buffer.memory` that opening one batch may take, as `docs/guides/tuning.md` says."""

RUN = """
import json, resource, sys, time
from mm2.replication.batch_size_limits import BatchMergeLimits
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.read_committed_batch_filter import scan_batches
from mm2.replication.send_queue import PartitionSendQueue
def peak():
    with open("/proc/self/status") as status:  # ru_maxrss may be that of the parent
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
path, copies, target_codec = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
data = bytearray(open(path, "rb").read())
before = peak()
held = MemoryBudget(int(sys.argv[4]))
box = PartitionSendQueue(held, merge_limits=BatchMergeLimits(), target_codec=target_codec)
found = scan_batches(memoryview(data), position=0, aborted=(), target_codec=target_codec)
for _ in range(copies):
    box.push_batches(found, old_before_ms=0)
sent = records = 0
longest_s = 0.0
while box.queued_batches and box.unreadable is None:
    start = time.process_time()
    ready = box.stage_next_batch()
    longest_s = max(longest_s, time.process_time() - start)
    while ready and box._staged:
        out = box.pop_staged_batch()
        held.release(out.held_bytes, decoded=out.is_decoded)
        sent += 1
        records += out.records
why = box.unreadable.reason if box.unreadable else ""
box.check_invariants()
print(json.dumps({"grown": peak() - before, "sent": sent, "records": records,
                  "longest_s": longest_s, "why": why}))
"""


def copied(path: Path, *, copies: int = 1, target_codec: int | None = None) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(path), str(copies), json.dumps(target_codec), str(BUDGET)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        cwd=mirror.ROOT,
    )
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def zeros(size: int) -> Iterator[bytes]:
    """The plain bytes of one record whose value is so many zeros."""
    head, body = bytearray(), bytearray(b"\0\0\0\x01")  # attributes, deltas, no key
    primitive_types.append_varint(body, size)
    primitive_types.append_varint(head, len(body) + size + 1)
    yield bytes(head + body)
    for at in range(0, size, MEGABYTE):
        yield bytes(min(MEGABYTE, size - at))
    yield b"\0"


def written(path: Path, codec: int, plain: Iterator[bytes], *, count: int = 1) -> Path:
    """A batch of these record bytes, which are never all in memory."""
    packer = (
        zstandard.ZstdCompressor(level=3).compressobj()
        if codec == compression.ZSTD
        else zlib.compressobj(1, wbits=31)
    )
    body = b"".join(packer.compress(each) for each in plain) + packer.flush()
    stamp = Stamp(base_offset=0, attributes=codec)
    times = (scripts.NOW_MS, scripts.NOW_MS)
    path.write_bytes(batches.assemble(body, stamp, count=count, last=count - 1, timestamps=times))
    assert path.stat().st_size < MEGABYTE + record_batch.HEADER_BYTES
    return path


def empty_records(count: int) -> Iterator[bytes]:
    for start in range(0, count, 10_000):
        part = bytearray()
        for delta in range(start, start + 10_000):
            record = bytearray(b"\0\0")
            primitive_types.append_varint(record, delta)
            record += b"\x01\x01\0"
            primitive_types.append_varint(part, len(record))
            part += record
        yield bytes(part)


@pytest.fixture(scope="module")
def zstd_bomb(tmp_path_factory) -> Path:
    """200 MB in 7 KB."""
    folder = tmp_path_factory.mktemp("bombs")
    return written(folder / "zstd", compression.ZSTD, zeros(200 * MEGABYTE))


@pytest.fixture(scope="module")
def gzip_bomb(tmp_path_factory) -> Path:
    """200 MB in 0.9 MB."""
    folder = tmp_path_factory.mktemp("bombs")
    return written(folder / "gzip", compression.GZIP, zeros(200 * MEGABYTE))


@pytest.fixture(scope="module")
def many_records(tmp_path_factory) -> Path:
    """A million empty records."""
    path = tmp_path_factory.mktemp("bombs") / "empty"
    return written(path, compression.ZSTD, empty_records(1_000_000), count=1_000_000)


def test_twenty_of_them_that_need_not_be_opened_are_passed_through(zstd_bomb):
    found = copied(zstd_bomb, copies=20)
    assert (found["sent"], found["records"], found["why"]) == (20, 20, "")
    assert found["grown"] < BUDGET


@pytest.mark.parametrize("bomb", ["zstd_bomb", "gzip_bomb"])
def test_one_that_must_be_opened_is_refused_before_it_is_unpacked_as_a_whole(bomb, request):
    found = copied(request.getfixturevalue(bomb), target_codec=compression.SNAPPY)
    assert (
        "decompresses to more than 67108864 bytes, the limit set by buffer.memory" in found["why"]
    )
    assert (found["sent"], found["grown"] < 2.5 * BUDGET) == (0, True)


@pytest.mark.parametrize("codec", [compression.NONE, compression.SNAPPY])
def test_one_that_just_fits_takes_the_stated_factor_at_most(codec, tmp_path):
    path = written(tmp_path / "fits", compression.ZSTD, zeros(BUDGET - 1000))
    found = copied(path, target_codec=codec)
    assert (found["records"], found["why"]) == (1, "")
    assert found["grown"] < FACTOR * BUDGET


def test_a_million_records_are_opened_without_holding_up_the_copy_loop(many_records):
    assert copied(many_records, copies=2)["records"] == 2_000_000
    found = copied(many_records, target_codec=compression.SNAPPY)
    assert (found["records"], found["why"]) == (1_000_000, "")
    assert found["sent"] >= 50
    assert found["grown"] < BUDGET
    assert found["longest_s"] < 2.0  # of 10 s after which the worker takes the copy for dead
