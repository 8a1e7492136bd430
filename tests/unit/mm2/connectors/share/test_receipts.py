from __future__ import annotations

from typing import Any

from mm2.connectors.share import receipts
from mm2.formats import receipt


def stated(**changed):
    given: dict[str, Any] = {
        "topic": "orders",
        "partition": 4,
        "id": "not-paired-0-30",
        "kind": receipt.ReceiptKind.NOT_PAIRED,
        "flow": "a->b",
        "at_ms": 1,
        "detail": "copied again",
        "source": (0, 30),
        "target": (40, 50),
    }
    return receipt.encode(receipt.Receipt(**(given | changed)))


def test_a_receipt_is_told_with_its_ranges_and_counted():
    found = receipts.Receipts()
    assert found.stored(*stated()) == (
        "receipt not-paired: orders-4, source offsets [0, 30), mirror offsets [40, 50): "
        "copied again"
    )
    assert found.counts == {("orders", "not-paired"): 1}


def test_ranges_that_do_not_apply_are_left_out():
    told = receipts.Receipts().stored(*stated(source=None, target=None))
    assert told == "receipt not-paired: orders-4: copied again"


def test_a_statement_made_again_is_the_same_one():
    found = receipts.Receipts()
    found.stored(*stated())
    assert found.stored(*stated(at_ms=2)) is None
    assert found.stored(*stated(partition=5)) is not None
    assert found.stored(*stated(id="not-paired-30-60")) is not None
    other = receipt.ReceiptKind.SOURCE_GONE
    assert found.stored(*stated(kind=other, id="source-gone-0-30")) is not None
    assert found.counts == {("orders", "not-paired"): 3, ("orders", "source-gone"): 1}
