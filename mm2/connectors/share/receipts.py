"""What a task's receipts stated, for the operator: a line for each, counted by topic and kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from connect_runtime.base import ids
from mm2.formats import receipt


@dataclass(slots=True)
class Receipts:
    """A fold over the receipts that are stored; `counts` is by (topic, kind's name).

    Invariant: a statement that is made again, as after a crash, is neither counted nor told again.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _newest: dict[tuple[ids.TopicPartition, receipt.ReceiptKind], str] = field(default_factory=dict)

    def stored(self, key: bytes, value: bytes) -> str | None:
        """The line to log, None for one that replaces itself. Raises as `receipt.decode`."""
        stated = receipt.decode(key, value)
        place = ids.TopicPartition(stated.topic, stated.partition)
        if self._newest.get((place, stated.kind)) == stated.id:
            return None
        self._newest[place, stated.kind] = stated.id
        self.counts[stated.topic, stated.kind.value] += 1
        ranges = [
            f"{side} offsets [{found[0]}, {found[1]})"
            for side, found in (("source", stated.source), ("mirror", stated.target))
            if found is not None
        ]
        where = ", ".join([str(place), *ranges])
        return f"receipt {stated.kind.value}: {where}: {stated.detail}"
