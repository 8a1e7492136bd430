from __future__ import annotations

import pytest

from mm2.replication.memory_budget import MemoryBudget


@pytest.mark.parametrize(
    ("held", "free"),
    [(0, 100), (60, 40), (100, 0), (130, 0)],
    ids=["empty", "some", "full", "over"],
)
def test_what_is_free_is_never_less_than_nothing(held, free):
    task = MemoryBudget(limit_bytes=100)
    task.reserve(held)
    assert (task.held_bytes, task.free_bytes) == (held, free)


def test_what_is_released_is_free_again():
    task = MemoryBudget(limit_bytes=100)
    for size in (30, 50):
        task.reserve(size)
    task.release(30)
    assert task.free_bytes == 50
    task.release(50)
    assert task.free_bytes == 100


def test_more_cannot_be_released_than_is_held():
    task = MemoryBudget(limit_bytes=100)
    task.reserve(10)
    with pytest.raises(AssertionError):
        task.release(11)


def test_no_batch_is_opened_while_others_hold_more_than_half_of_the_budget():
    task = MemoryBudget(limit_bytes=100)
    task.reserve(90)
    task.reserve(50, decoded=True)
    assert (task.may_decode(), task.held_bytes, task.free_bytes) == (True, 140, 0)
    task.reserve(1, decoded=True)
    assert not task.may_decode()
    task.release(90)
    assert not task.may_decode()
    task.release(1, decoded=True)
    assert (task.may_decode(), task.free_bytes) == (True, 50)


def test_what_is_opened_leaves_half_of_the_budget_to_fetching():
    task = MemoryBudget(limit_bytes=100)
    task.reserve(150, decoded=True)
    assert task.free_bytes == 50
    task.reserve(40)
    assert task.free_bytes == 10
    task.reserve(40)
    assert task.free_bytes == 0


@pytest.mark.parametrize(("limit", "largest"), [(10, 1 << 20), (1 << 26, 1 << 26)])
def test_one_batch_may_unpack_to_the_whole_budget(limit, largest):
    assert MemoryBudget(limit).largest_decoded_bytes == largest
