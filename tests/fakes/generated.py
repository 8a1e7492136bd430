"""What Hypothesis makes of records and batches: as odd as a real topic's, and odder."""

from __future__ import annotations

from hypothesis import strategies as st

from mm2.formats import record_codec
from mm2.formats.record_codec import BatchRecord, RecordFields
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp

OLDEST_MS, NEWEST_MS = -1, (1 << 62) - 1
"""Timestamps that any two of a batch may have: their difference stays within 64 bits."""

maybe_bytes = st.none() | st.binary(max_size=20) | st.binary(min_size=60, max_size=300)
headers = st.lists(st.tuples(st.binary(max_size=9), maybe_bytes), max_size=3).map(tuple)
fields = st.builds(RecordFields, key=maybe_bytes, value=maybe_bytes, headers=headers)
bodies = fields.map(record_codec.encode_record_body)

timestamps = st.one_of(
    st.integers(1_790_000_000_000, 1_790_000_000_050),
    st.integers(1_789_000_000_000, 1_791_000_000_000),
    st.integers(OLDEST_MS, NEWEST_MS),
)


@st.composite
def offsets(draw: st.DrawFn, *, count: int) -> list[int]:
    """Rising, with gaps now and then."""
    at = draw(st.integers(0, 1 << 40))
    steps = st.sampled_from([1, 1, 1, 1, 2, 5, 300, 70_000])
    found = []
    for _ in range(count):
        found.append(at)
        at += draw(steps)
    return found


@st.composite
def some_records(draw: st.DrawFn, *, most: int = 8, dense: bool = False) -> list[BatchRecord]:
    """At least one."""
    count = draw(st.integers(1, most))
    where = range(count) if dense else draw(offsets(count=count))
    return [BatchRecord(at, draw(timestamps), draw(bodies)) for at in where]


def by_hand(
    found: list[BatchRecord],
    stamp: Stamp = batches.PLAIN,
    *,
    codec: int = 0,
    last: int | None = None,
) -> bytes:
    """A batch of these records, which stand at their offsets, written without the product."""
    base = found[0].offset if stamp is batches.PLAIN else stamp.base_offset
    stamp = Stamp(
        base_offset=base,
        leader_epoch=stamp.leader_epoch,
        producer_id=stamp.producer_id,
        producer_epoch=stamp.producer_epoch,
        attributes=stamp.attributes,
    )
    said = [record_codec.decode_record_body(each.body) for each in found]
    held = [
        Record(
            key=each.key,
            value=each.value,
            headers=each.headers,
            timestamp=record.timestamp,
            offset_delta=record.offset - base,
        )
        for record, each in zip(found, said, strict=True)
    ]
    last = found[-1].offset if last is None else last
    return batches.data(held, stamp, last_offset_delta=last - base, codec=codec)
