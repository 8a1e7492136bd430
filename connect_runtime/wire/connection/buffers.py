"""Buffers for large responses, used again: a fresh one costs zeroing and page faults per byte.

A buffer comes back by itself, when the last view into it is gone; nobody returns anything, and
nobody can look at memory that serves somebody else already. What makes it work: a ctypes array
stands between the views and the buffer, views keep it alive, and its end is told by a weak
reference.
"""

from __future__ import annotations

import bisect
import ctypes
import functools
import weakref
from typing import Any

_ROUND_TO = 64 * 1024
_WASTE_MAX = 2
"""A free buffer serves if it is at most this many times as large as asked for."""


class BufferPool:
    """Keeps at most `max_free_bytes` of buffers that nobody uses, sorted by size. One thread's.

    `lent_bytes` are those of buffers in use: a small view keeps the whole of its buffer.
    """

    def __init__(self, max_free_bytes: int) -> None:
        self.free_bytes = 0
        self.lent_bytes = 0
        self._max_free_bytes = max_free_bytes
        self._free: list[bytearray] = []
        self._lent: dict[int, tuple[weakref.ref[Any], bytearray]] = {}

    def take(self, size: int) -> memoryview:
        """A writable view of exactly `size` bytes, of whatever content."""
        index = bisect.bisect_left(self._free, size, key=len)
        if index < len(self._free) and len(self._free[index]) <= max(size, _ROUND_TO) * _WASTE_MAX:
            buffer = self._free.pop(index)
            self.free_bytes -= len(buffer)
        else:
            buffer = bytearray(-(-size // _ROUND_TO) * _ROUND_TO)
        between = _array_type(len(buffer)).from_buffer(buffer)
        reference = weakref.ref(between, self._take_back)
        self._lent[id(reference)] = (reference, buffer)
        self.lent_bytes += len(buffer)
        return memoryview(between).cast("B")[:size]

    def _take_back(self, reference: weakref.ref[Any]) -> None:
        _, buffer = self._lent.pop(id(reference))
        self.lent_bytes -= len(buffer)
        bisect.insort(self._free, buffer, key=len)
        self.free_bytes += len(buffer)
        while self.free_bytes > self._max_free_bytes:
            self.free_bytes -= len(self._free.pop(0))  # large ones are the dear ones


@functools.lru_cache(maxsize=256)
def _array_type(size: int) -> type[ctypes.Array[ctypes.c_ubyte]]:
    return ctypes.c_ubyte * size
