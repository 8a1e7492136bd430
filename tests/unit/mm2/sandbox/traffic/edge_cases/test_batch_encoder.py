"""Batches by hand are those that another hand wrote from the same specification."""

from __future__ import annotations

import gzip

import crc32c
import pytest

from mm2.sandbox.traffic.edge_cases import batch_encoder
from mm2.sandbox.traffic.edge_cases.batch_encoder import TimestampedRecord
from mm2.sandbox.traffic.payloads import OutgoingRecord
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp

HEADERS = (("", None), ("twice", b"1"), ("twice", b""))


def stamped(stamps: list[int]) -> list[TimestampedRecord]:
    return [
        TimestampedRecord(
            record=OutgoingRecord(
                key=None if at % 2 else b"key", value=b"v" * (300 * at), headers=HEADERS
            ),
            timestamp_ms=stamp,
        )
        for at, stamp in enumerate(stamps)
    ]


def by_another(stamps: list[int], *, base: int | None = None, attributes: int = 0) -> bytes:
    records = [
        Record(
            key=each.record.key,
            value=each.record.value,
            timestamp=each.timestamp_ms,
            headers=tuple((name.encode(), value) for name, value in each.record.headers),
        )
        for each in stamped(stamps)
    ]
    stamp = Stamp(leader_epoch=-1, attributes=attributes)
    return batches.data(records, stamp, base_timestamp=base)


@pytest.mark.parametrize("stamps", [[0], [5, 4, -1, 0], [1_700_000_000_000] * 9])
@pytest.mark.parametrize("base", [None, 0, 2_000_000_000_000])
def test_plain_batches_are_the_same_bytes(stamps, base):
    assert batch_encoder.encode_batch(stamped(stamps), base_timestamp_ms=base) == by_another(
        stamps, base=base
    )


def test_attributes_are_set():
    made = batch_encoder.encode_batch(stamped([1, 2]), attributes=0x40)
    assert made == by_another([1, 2], attributes=0x40)


def test_compressed_batches_hold_the_same_records():
    made = batch_encoder.encode_batch(stamped([1, 2, 3]), compressed=True)
    assert int.from_bytes(made[21:23], "big") == 1
    assert int.from_bytes(made[8:12], "big") == len(made) - 12
    assert int.from_bytes(made[17:21], "big") == crc32c.crc32c(made[21:])
    assert gzip.decompress(made[61:]) == by_another([1, 2, 3])[61:]
