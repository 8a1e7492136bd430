from __future__ import annotations

import pytest

from connect_runtime.wire.connection import buffers


def test_a_view_is_writable_and_exactly_as_long_as_asked_for():
    view = buffers.BufferPool(1 << 20).take(100_001)
    assert (len(view), view.readonly, view.format, view.itemsize) == (100_001, False, "B", 1)
    view[99_999:] = b"xy"
    assert bytes(view[-3:]) == b"\x00xy"


def test_a_buffer_comes_back_when_its_last_view_is_gone_and_not_before():
    pool = buffers.BufferPool(1 << 20)
    view = pool.take(70_000)
    part = view[10:20][2:5]
    part[0] = 77
    del view
    assert (pool.free_bytes, pool.lent_bytes) == (0, 128 * 1024)
    other = pool.take(70_000)
    other[12] = 1
    assert part[0] == 77
    del part
    assert (pool.free_bytes, pool.lent_bytes) == (128 * 1024, 128 * 1024)
    again = pool.take(60_000)
    assert pool.free_bytes == 0
    assert again[12] == 77


def test_a_far_too_large_buffer_is_not_spent_on_a_small_answer():
    pool = buffers.BufferPool(1 << 30)
    big = pool.take(10 << 20)
    del big
    small = pool.take(1 << 20)
    assert pool.free_bytes == 10 << 20
    del small
    fitting = pool.take(9 << 20)
    assert pool.free_bytes == 1 << 20
    del fitting


def test_what_nobody_uses_is_bounded():
    pool = buffers.BufferPool(1 << 20)
    views = [pool.take(512 * 1024) for _ in range(4)]
    assert pool.free_bytes == 0
    del views
    assert pool.free_bytes == 1 << 20


def test_it_survives_the_end_of_the_pool():
    view = buffers.BufferPool(1).take(10)
    view[0] = 1
    with pytest.raises(IndexError):
        view[10]
