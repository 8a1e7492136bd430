"""Machines that open, join or map batches wrongly."""

from __future__ import annotations

from typing import Any

from mm2.core.copy import outbox, outgoing, partition, source_batches


class _StartOverlooked(outbox.Outbox):
    def push(self, found: source_batches.Scan, *, old_before_ms: int) -> None:
        found.batches = [
            each._replace(first=each.header.base_offset) if each.opening else each
            for each in found.batches
        ]
        super().push(found, old_before_ms=old_before_ms)


class _GapsUnmapped(outbox.Outbox):
    def take(self) -> outgoing.Outgoing:
        return super().take()._replace(pieces=())


class _OneTooMany(outbox.Outbox):
    def _joined_to(self, head: source_batches.Copyable) -> list[source_batches.Copyable]:
        found = super()._joined_to(head)
        if found:
            del self._queue[1]
        return found[1:]


class _Bent(partition.PartitionCopy):
    outbox_class: type[outbox.Outbox]

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.outbox.__class__ = self.outbox_class

    def check_invariants(self) -> None:
        """Would notice, but the judge shall."""


class StartOverlooked(_Bent):
    """What stands before the start in the batch that the copy begins in is copied too; the map does
    not take it."""

    outbox_class = _StartOverlooked


class GapsUnmapped(_Bent):
    """Records of a batch that had gaps are taken to follow each other on the source."""

    outbox_class = _GapsUnmapped


class OneTooMany(_Bent):
    """Of small batches that are joined one is forgotten."""

    outbox_class = _OneTooMany
