"""A record of the map that cannot be read is skipped, with a receipt."""

from __future__ import annotations

import pytest

from mm2.app.offsets import map_record_skip
from mm2.connectors.share import flow_ledger
from mm2.core import flows, naming
from mm2.formats import map_record, receipt
from tests.fakes import admin, flow_log, plugin_contexts

MAP = naming.map_topic("east")
GARBAGE = b"\x01\x03garbage"


@pytest.fixture
def cluster():
    made = admin.FakeCluster()
    made.create(MAP, cleanup_policy="compact")
    return made


def skip(cluster, offset):
    ledger = flow_ledger.FlowLedger(flow_log.FakeFlowLog(cluster, source_alias="east"))
    return map_record_skip.skip(
        ledger, flows.Flow(source="east", target="west"), offset, clock=plugin_contexts.Clock()
    )


def receipts(cluster):
    log = cluster.topics[naming.receipts_topic("east")].log
    return [receipt.decode(key, value) for key, value in log]


def test_a_receipt_names_it_and_a_tombstone_replaces_it(cluster):
    log = cluster.topics[MAP].log
    log += [(GARBAGE, b"x"), (GARBAGE, b"y")]
    found = skip(cluster, 1)
    assert found.partition is None
    assert log[2:] == [(GARBAGE, None)]
    (stated,) = receipts(cluster)
    assert (stated.kind.value, stated.topic, stated.target) == ("map-record-skipped", MAP, None)
    assert f"{MAP}, offset 1: " in stated.detail
    assert GARBAGE.hex() in stated.detail


def test_where_its_partition_can_be_read_the_receipt_names_that(cluster):
    key = map_record.encode_key(map_record.RequestKey(topic="orders", partition=4))
    cluster.topics[MAP].log.append((key, b"\x63"))
    skip(cluster, 0)
    (stated,) = receipts(cluster)
    assert (stated.topic, stated.partition) == ("orders", 4)


@pytest.mark.parametrize(
    ("offset", "told"), [(0, "at offsets 1"), (2, "at offsets 1"), (9, "at offsets 1")]
)
def test_what_can_be_read_or_was_replaced_is_not_skipped(cluster, offset, told):
    request = map_record.Request(request="r", position="latest")
    key = map_record.encode_key(map_record.RequestKey(topic="orders", partition=4))
    log = cluster.topics[MAP].log
    log += [(GARBAGE, b"x"), (b"?", b"x"), (key, map_record.encode_value(request))]
    log.append((GARBAGE, None))
    with pytest.raises(map_record_skip.NothingToSkipError, match=told):
        skip(cluster, offset)
    assert len(log) == 4
    assert receipts(cluster) == []


def test_skipped_twice_is_told(cluster):
    cluster.topics[MAP].log.append((GARBAGE, b"x"))
    skip(cluster, 0)
    with pytest.raises(map_record_skip.NothingToSkipError, match="none is unreadable"):
        skip(cluster, 0)
