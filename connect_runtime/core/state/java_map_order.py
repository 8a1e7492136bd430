"""The order in which Java's HashMap hands out its entries.

Offset keys are compared by their bytes, and most partition maps of Java connectors are HashMaps:
who writes the same bytes must write their fields in the same order. (Bins that Java turns into
trees, at eight keys of one bucket among 64, may differ; no partition map comes near.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

_CAPACITY = 16
_LOAD = 0.75
_WORD = 2**32

Value = TypeVar("Value")


def string_hash(text: str) -> int:
    """`String.hashCode` as 32 unsigned bits, over UTF-16 units."""
    result = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        result = (31 * result + int.from_bytes(encoded[at : at + 2])) % _WORD
    return result


def ordered_keys(keys: Iterable[str]) -> list[str]:
    """The keys by bucket; keys that share one keep the order they are given in."""
    given = list(keys)
    capacity = _CAPACITY
    while len(given) > _LOAD * capacity:
        capacity *= 2
    return sorted(given, key=lambda key: _bucket(string_hash(key), capacity))


def _bucket(hashed: int, capacity: int) -> int:
    return (hashed ^ (hashed >> 16)) & (capacity - 1)


def ordered(mapping: Mapping[str, Value]) -> dict[str, Value]:
    """The same map, in the order of a HashMap that these keys were put into one after another."""
    return {key: mapping[key] for key in ordered_keys(mapping)}
