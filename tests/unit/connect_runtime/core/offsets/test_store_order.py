"""ConnectorOffsetBackingStoreTest: what is written where, and what a failure means."""

from __future__ import annotations

import pytest

from connect_runtime.core.offsets import store_order

Store = store_order.Store
BOTH = frozenset(Store)
KEPT: dict[bytes, bytes | None] = {b"a": b"1", b"b": b"2"}
GONE: dict[bytes, bytes | None] = {b"c": None}


def shown(plan):
    return [(each.store, dict(each.records), each.decisive) for each in plan]


@pytest.mark.parametrize("only", list(Store))
@pytest.mark.parametrize("records", [KEPT, GONE, KEPT | GONE])
def test_one_store_gets_everything_at_once(only, records):
    plan = store_order.writes(records, stores=frozenset({only}))
    assert shown(plan) == [(only, records, True)]


def test_without_deletions_the_connectors_own_store_goes_first():
    assert shown(store_order.writes(KEPT, stores=BOTH)) == [
        (Store.CONNECTOR, KEPT, True),
        (Store.WORKER, KEPT, False),
    ]


def test_deletions_reach_the_copy_before_the_original():
    """KAFKA-15018."""
    assert shown(store_order.writes(KEPT | GONE, stores=BOTH)) == [
        (Store.WORKER, GONE, True),
        (Store.CONNECTOR, KEPT | GONE, True),
        (Store.WORKER, KEPT, False),
    ]


def test_deletions_alone_need_no_third_write():
    assert shown(store_order.writes(GONE, stores=BOTH)) == [
        (Store.WORKER, GONE, True),
        (Store.CONNECTOR, GONE, True),
    ]


def carry_out(plan, fails):
    """Both stores after it, whether it succeeded, and whether somebody was warned."""
    stores, warned = {Store.CONNECTOR: dict(OLD), Store.WORKER: dict(OLD)}, False
    for number, each in enumerate(plan):
        if number == fails:
            if each.decisive:
                return stores, False, warned
            warned = True
            continue
        for key, value in each.records.items():
            stores[each.store].pop(key, None)
            if value is not None:
                stores[each.store][key] = value
    return stores, True, warned


OLD = {b"a": b"0", b"c": b"0"}


@pytest.mark.parametrize("fails", [None, 0, 1, 2])
def test_whatever_fails_a_deleted_offset_does_not_come_back(fails):
    plan = store_order.writes(KEPT | GONE, stores=BOTH)
    stores, succeeded, warned = carry_out(plan, fails)
    read = store_order.overlaid(stores[Store.WORKER], stores[Store.CONNECTOR])
    assert succeeded is (fails in (None, 2))
    assert warned is (fails == 2)
    if succeeded:
        assert read == KEPT
    else:
        assert read == OLD


def test_no_store_at_all_is_a_mistake():
    with pytest.raises(AssertionError):
        store_order.writes(KEPT, stores=frozenset())
