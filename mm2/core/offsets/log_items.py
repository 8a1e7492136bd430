"""What one log holds, as far as it takes to find the same on another: offsets and digests."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

_OPTIONAL = 1
_HOLE = 2


@dataclass(slots=True, kw_only=True)
class Items:
    """What one log holds from `start` on, in order: single records, or whole batches whose records
    stand side by side.

    `optional` items may be on the other side or not (what was aborted, which Java copies unless
    told otherwise). A *hole* is where offsets are missing that no marker explains: the cleaner was
    there. Invariant: `end` is behind everything that was added or passed over.
    """

    start: int
    end: int = field(init=False)
    offsets: array[int] = field(default_factory=lambda: array("q"))
    spans: array[int] = field(default_factory=lambda: array("q"))
    digests: array[int] = field(default_factory=lambda: array("q"))
    writers: array[int] = field(default_factory=lambda: array("q"))
    _flags: bytearray = field(default_factory=bytearray)
    _hole: bool = False

    def __post_init__(self) -> None:
        self.end = self.start

    def __len__(self) -> int:
        return len(self.offsets)

    def add(
        self, offset: int, digest: int, *, span: int = 1, optional: bool = False, writer: int = -1
    ) -> None:
        """The next item: `span` offsets from `offset` on. `digest` has 64 bits, signed; `writer` is
        the id of its producer."""
        self.skip_to(offset, hole=True)
        self.offsets.append(offset)
        self.spans.append(span)
        self.digests.append(digest)
        self.writers.append(writer)
        self._flags.append((_OPTIONAL if optional else 0) | (_HOLE if self._hole else 0))
        self._hole = False
        self.end = offset + span

    def skip_to(self, offset: int, *, hole: bool = False) -> None:
        """There is nothing to copy before `offset`; a hole: nobody knows what was there."""
        if offset > self.end:
            self._hole = self._hole or hole
            self.end = offset

    def behind(self, at: int) -> int:
        """The offset behind an item."""
        return self.offsets[at] + self.spans[at]

    def is_needed(self, at: int) -> bool:
        return not self._flags[at] & _OPTIONAL

    def has_hole(self, first: int, last: int) -> bool:
        """Before any of the items from index `first` on up to `last`, that one included?"""
        return any(self._flags[at] & _HOLE for at in range(first, last + 1))

    def check_invariants(self) -> None:
        for at in range(1, len(self)):
            assert self.behind(at - 1) <= self.offsets[at], at
        assert not self.offsets or self.behind(len(self) - 1) <= self.end
