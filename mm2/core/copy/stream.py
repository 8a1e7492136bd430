"""How far an ordered stream is stored, when its items may be acknowledged out of order."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class StoredStream:
    """Items are numbered from 1. Invariant: all up to `through` are stored, the next is not."""

    through: int = 0
    told: int = 0
    _ahead: set[int] = field(default_factory=set)

    def stored(self, number: int) -> None:
        assert number > self.through, (number, self.through)
        self._ahead.add(number)
        while self.through + 1 in self._ahead:
            self.through += 1
            self._ahead.remove(self.through)

    def news(self) -> int | None:
        """`through`, if it has moved since it was last asked for."""
        if self.told == self.through:
            return None
        self.told = self.through
        return self.through
