from __future__ import annotations

import pytest

from mm2.core.copy import opening, source_batches
from mm2.formats import records
from tests.fakes import batches, copying, scripts, transforms

NOW_MS = scripts.NOW_MS


def entry(batch, *, position=0):
    """The one copyable batch of a fetch."""
    found = source_batches.scan(memoryview(batch), position=position, aborted=())
    (only,) = found.batches
    return only


def opened(batch, *, position=0, transform=None):
    found = opening.open_batch(entry(batch, position=position), transform)
    return [(each.offset, records.read_body(each.body).value) for each in found]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_all_records_are_there_with_their_offsets(codec):
    batch = scripts.data(10, b"a", b"b", b"c", deltas=(0, 2, 7), codec=codec)
    assert opened(batch) == [(10, b"a"), (12, b"b"), (17, b"c")]


def test_a_batch_of_one_is_opened_by_the_short_way_to_the_same():
    one = entry(scripts.data(10, b"a"))
    assert opening.open_batch(one) == records.open_batch(one.header, one.batch)


@pytest.mark.parametrize("attributes", [0, 0x10, 0x40])
@pytest.mark.parametrize(("position", "left"), [(0, 3), (10, 3), (11, 2), (12, 1), (13, 1)])
def test_records_before_the_start_do_not_count(position, left, attributes):
    batch = scripts.data(10, b"a", b"b", b"c", deltas=(0, 1, 3), attributes=attributes)
    assert opened(batch, position=position) == [(10, b"a"), (11, b"b"), (13, b"c")][-left:]


@pytest.mark.parametrize(
    "attributes",
    [
        0,
        0x10,
    ],
)
def test_the_only_record_of_a_batch_may_lie_before_the_start(attributes):
    batch = scripts.data(10, b"a", last_delta=5, attributes=attributes)
    assert opened(batch, position=10) == [(10, b"a")]
    assert opened(batch, position=12) == []


def test_under_log_append_time_records_have_the_time_that_readers_see():
    held = [batches.Record(value=b"v", timestamp=NOW_MS + at) for at in (0, 9, 4)]
    stamp = batches.Stamp(attributes=0x08)
    found = opening.open_batch(entry(batches.data(held, stamp)))
    assert [each.timestamp for each in found] == [NOW_MS + 9] * 3
    single = batches.data(held[:1], stamp)
    assert opening.open_batch(entry(single))[0].timestamp == NOW_MS


@pytest.mark.parametrize(
    ("batch", "saying"),
    [
        (copying.unreadable(10), "gzip data is damaged"),
        (copying.unreadable(10, codec=0), "2 records cannot stand in 7 bytes"),
        (scripts.data(10, b"a", b"b", attributes=6), "codec 6"),
        (scripts.data(10, b"a", deltas=(9,), last_delta=3), "behind the batch's end"),
        (scripts.data(10, b"a", b"b", deltas=(1, 0), last_delta=1), "record 1"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_cannot_be_opened_says_why(batch, saying):
    with pytest.raises(opening.UnreadableError, match=saying):
        opened(batch)


# Transforms


def test_a_transform_sees_every_record_and_its_time():
    seen = transforms.Filter()
    batch = scripts.data(10, b"a", b"b", codec=1)
    assert opened(batch, transform=seen) == [(10, b"a"), (11, b"b")]
    assert seen.seen == [
        (records.Fields(None, b"a"), NOW_MS),
        (records.Fields(None, b"b"), NOW_MS),
    ]


def test_what_a_transform_leaves_out_is_gone_and_the_rest_stays_where_it_was():
    batch = scripts.data(10, b"a", b"b", b"c")
    assert opened(batch, transform=transforms.Filter(b"b")) == [(10, b"a"), (12, b"c")]
    assert opened(batch, transform=transforms.Filter(b"a", b"b", b"c")) == []


def test_a_batch_of_one_is_transformed_too():
    assert opened(scripts.data(10, b"a"), transform=transforms.Filter(change=b"new ")) == [
        (10, b"new a")
    ]
    assert opened(scripts.data(10, b"a"), transform=transforms.Filter(b"a")) == []


def test_a_transform_does_not_see_what_lies_before_the_start():
    seen = transforms.Filter()
    opened(scripts.data(10, b"a", b"b"), position=11, transform=seen)
    assert [fields.value for fields, _ in seen.seen] == [b"b"]


def test_a_body_that_a_transform_cannot_be_given_is_unreadable():
    body = batches.varint(7) + b"\0\0\0" + batches.varint(50) + b"xyz"
    batch = batches.assemble(body, batches.PLAIN, count=1, last=0, timestamps=(NOW_MS, NOW_MS))
    assert opening.open_batch(entry(batch))
    with pytest.raises(opening.UnreadableError, match="a field claims 50 bytes"):
        opened(batch, transform=transforms.Filter())


@pytest.mark.parametrize("became", [records.Fields._make(("text", None, ())), ("only one",), 5])
def test_a_transform_that_makes_no_record_failed_on_it(became):
    class Odd(transforms.Filter):
        def __call__(self, fields, timestamp_ms):
            return became

    with pytest.raises(opening.TransformError, match="transform filter failed on it with"):
        opened(scripts.data(10, b"a"), transform=Odd())


def test_what_makes_another_thing_each_time_is_none_for_pairing():
    fixed, loose = transforms.Filter(), transforms.Filter()
    loose.deterministic = False
    assert opening.repeatable(fixed) is fixed
    assert opening.repeatable(loose) is None
    assert opening.repeatable(None) is None


def test_transforms_are_told_apart_by_64_bits_of_their_names():
    one, other = transforms.Filter(), transforms.Filter()
    assert opening.filter_hash(None) == 0
    assert opening.filter_hash(one) == opening.filter_hash(other)
    other.name = "filter of other values"
    hashes = [opening.filter_hash(each) for each in (one, other)]
    assert hashes[0] != hashes[1]
    assert all(0 < each < 1 << 64 for each in hashes)
