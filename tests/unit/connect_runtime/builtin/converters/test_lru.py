from __future__ import annotations

from connect_runtime.builtin.converters import lru


def test_what_was_longest_not_used_goes_first():
    held: lru.Lru[str, int] = lru.Lru(2)
    held.put("a", 1)
    held.put("b", 2)
    assert held.get("a") == 1
    held.put("c", 3)
    assert held.get("b") is None
    assert (held.get("a"), held.get("c"), len(held)) == (1, 3, 2)


def test_it_may_hold_nothing():
    held: lru.Lru[str, int] = lru.Lru(0)
    held.put("a", 1)
    assert held.get("a") is None
    assert len(held) == 0
