"""How long a source is waited for, and which receipts count as losses."""

from __future__ import annotations

import pytest

from connect_runtime.system import clock
from mm2.app.looks import mirrors
from mm2.core import flows, naming
from mm2.formats import receipt
from tests.fakes import two_sides


@pytest.mark.parametrize(
    ("timeout_s", "asked_s"), [(1.0, 1.0), (10.0, 10.0), (60.0, 10.0), (300.0, 50.0)]
)
def test_a_longer_look_asks_a_source_for_longer(timeout_s, asked_s):
    assert mirrors.source_s(timeout_s) == asked_s


@pytest.mark.parametrize("kind", receipt.ReceiptKind)
def test_only_what_was_lost_counts_as_a_loss(kind):
    sides = two_sides.FakeSides(flows.Flow(source="east", target="west"))
    stated = receipt.Receipt(
        topic="orders", partition=0, id="x", kind=kind, flow="east->west", at_ms=1, detail=""
    )
    sides.target.topics.topics[naming.receipts_topic("east")] = [receipt.encode(stated)]
    found = mirrors.look(sides, clock=clock.SystemClock(), timeout_s=5.0)
    lost = (receipt.ReceiptKind.SOURCE_GONE, receipt.ReceiptKind.NEW_ERA_REQUESTED)
    assert found.losses == (1 if kind in lost else 0)
