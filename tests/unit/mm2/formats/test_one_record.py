from __future__ import annotations

import pytest

from mm2.formats import one_record, record_batch
from tests.fakes import batches


@pytest.mark.parametrize("value", [b"", b"x", bytes(range(256)) * 40])
def test_it_is_the_batch_that_the_specification_describes(value):
    """Against the batches that the tests write by hand."""
    made = one_record.batch(value, timestamp_ms=1_700_000_000_123, producer=(77, 3, 9))

    stamp = batches.Stamp(producer_id=77, producer_epoch=3, base_sequence=9, leader_epoch=-1)
    record = batches.Record(value=value, timestamp=1_700_000_000_123)
    expected = batches.data([record], stamp)
    ((header, whole),) = record_batch.split_batches(memoryview(made))
    assert record_batch.crc_matches(whole, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 9)
    assert bytes(made[record_batch.CRC_START :]) == expected[record_batch.CRC_START :]
    assert bytes(made[:12]) == expected[:12]
