"""Do both ends hold the same, and for how long (a fold over looks)?

Not a low lag but none, no transaction that is open, and the same ends at both looks: a producer
that somebody forgot shows itself by moving an end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.base import amounts, ids
from mm2.core.failover import seen


@dataclass(slots=True)
class Agreement:
    """`settle_s` seconds lie between the first and the last look that agree. `why` says what does
    not, `moved` which end has changed last between two looks that did, "" where none has; `ends`
    are those of the newest look that agreed. `leaves_unheard`: a partition that the cluster that is
    left does not answer for is passed over, as long as it answers for others."""

    settle_s: float
    leaves_unheard: bool = False
    why: str = "nothing was looked at"
    moved: str = ""
    ends: dict[ids.TopicPartition, int] = field(default_factory=dict)
    _since_s: float | None = None

    def look(self, mirrored: Iterable[seen.Mirrored], now_s: float) -> bool:
        """True once they have agreed for long enough."""
        ends: dict[ids.TopicPartition, int] = {}
        looked = list(mirrored)
        heard = any(each.here is not None for each in looked)
        for each in looked:
            if each.here is None:
                if self.leaves_unheard and heard:
                    continue
                return self._disagree(f"{each.partition}: the cluster that is left does not answer")
            if each.here.pending:
                pending = amounts.counted(each.here.pending, "offset", "stand")
                return self._disagree(
                    f"{each.partition}: {pending} behind a transaction that is open"
                )
            if each.lag_records:
                lag = amounts.counted(each.lag_records, "record")
                return self._disagree(f"{each.partition}: {lag} to go")
            ends[each.partition] = each.here.end
        if self._since_s is None or ends != self.ends:
            self._note_moved(ends)
            self.why = f"they agree, but not for {self.settle_s:g} s yet{self.moved and ': '}"
            self.why += self.moved
            self.ends, self._since_s = ends, now_s
        return now_s - self._since_s >= self.settle_s

    def _note_moved(self, ends: Mapping[ids.TopicPartition, int]) -> None:
        for partition, end in sorted(ends.items()):
            before = self.ends.get(partition, end)
            if end != before:
                self.moved = (
                    f"{partition} ended at {before} on both, and ends at {end} now: somebody "
                    "writes there still"
                )
                return

    def _disagree(self, why: str) -> bool:
        self.why, self._since_s = why, None
        return False
