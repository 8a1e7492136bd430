from __future__ import annotations

import pytest

from mm2.app.looks import receipts
from mm2.formats import receipt
from tests.fakes import one_side

TOPIC = "mm2-receipts.east.internal"


def stated(id: str, at_ms: int, detail: str = "") -> receipt.Receipt:
    return receipt.Receipt(
        topic="orders",
        partition=0,
        id=id,
        kind=receipt.ReceiptKind.SOURCE_GONE,
        flow="east->west",
        at_ms=at_ms,
        detail=detail,
        source=(3, 9),
    )


def read(*records):
    side = one_side.FakeSide("west")
    side.topics.topics[TOPIC] = records
    return receipts.read(side, "east", timeout_s=5.0)


def test_each_statement_once_as_it_was_made_last_oldest_first():
    a, b, again = stated("a", 7), stated("b", 5), stated("a", 9, "again")
    gone = receipt.encode(stated("c", 1))
    found = read(*map(receipt.encode, (a, b, again)), gone, (gone[0], None), (None, b"x"))
    assert (found.stated, found.unreadable) == ([b, again], [])


def test_without_a_topic_there_are_none():
    assert receipts.read(one_side.FakeSide("west"), "east", timeout_s=5.0) == receipts.Receipts()


@pytest.mark.parametrize(
    "record",
    [
        (b"x", b"y"),
        (b"[]", b"[]"),
        (b"deep", b"[" * 100_000),
        (receipt.encode(stated("a", 1))[0], b'{"v":9}'),
        (receipt.encode(stated("a", 1))[0], b'{"v":1}'),
    ],
)
def test_a_record_that_cannot_be_read_hides_no_other(record):
    before, behind = stated("b", 5), stated("c", 6)
    found = read(receipt.encode(before), record, receipt.encode(behind))
    assert found.stated == [before, behind]
    (unreadable,) = found.unreadable
    assert (unreadable.topic, unreadable.offset) == (TOPIC, 1)
    assert unreadable.reason


def test_a_tombstone_takes_an_unreadable_record_away():
    assert read((b"x", b"y"), (b"x", None)) == receipts.Receipts()
