from __future__ import annotations

import pytest

from connect_runtime.base import errors
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
    assert found == [b, again]


def test_without_a_topic_there_are_none():
    assert receipts.read(one_side.FakeSide("west"), "east", timeout_s=5.0) == []


@pytest.mark.parametrize(
    "record",
    [
        (b"x", b"y"),
        (b"[]", b"[]"),
        (receipt.encode(stated("a", 1))[0], b'{"v":9}'),
        (receipt.encode(stated("a", 1))[0], b'{"v":1}'),
    ],
)
def test_what_another_release_wrote_is_refused_by_name(record):
    with pytest.raises(errors.FatalError, match=r"of west at offset 0: .* Another release"):
        read(record)
