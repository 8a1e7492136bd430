"""What a fold answers to a record that it cannot use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Skipped:
    """The record changed nothing, and somebody should hear of it.

    The reason names the key, never a value: values may hold secrets. Whoever read the record adds
    topic, partition and offset.
    """

    reason: str
