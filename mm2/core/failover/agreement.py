"""Do both ends hold the same, and for how long (a fold over looks)?

Not a low lag but none, no transaction that is open, and the same ends at both looks: a producer
that somebody forgot shows itself by moving an end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from connect_runtime.base import ids
from mm2.core.failover import seen


@dataclass(slots=True)
class Agreement:
    """`settle_s` seconds lie between the first and the last look that agree. `why` says what does
    not; `ends` are those of the newest look that agreed."""

    settle_s: float
    why: str = "nothing was looked at"
    ends: dict[ids.TopicPartition, int] = field(default_factory=dict)
    _since_s: float | None = None

    def look(self, mirrored: Iterable[seen.Mirrored], now_s: float) -> bool:
        """True once they have agreed for long enough."""
        ends: dict[ids.TopicPartition, int] = {}
        for each in mirrored:
            if each.here is None:
                return self._disagree(f"{each.partition}: the cluster that is left does not answer")
            if each.here.pending:
                return self._disagree(
                    f"{each.partition}: {each.here.pending} offsets stand behind a transaction "
                    "that is open"
                )
            if each.lag_records:
                return self._disagree(f"{each.partition}: {each.lag_records} records to go")
            ends[each.partition] = each.here.end
        if self._since_s is None or ends != self.ends:
            self.why = f"they agree, but not for {self.settle_s:g} s yet"
            self.ends, self._since_s = ends, now_s
        return now_s - self._since_s >= self.settle_s

    def _disagree(self, why: str) -> bool:
        self.why, self._since_s = why, None
        return False
