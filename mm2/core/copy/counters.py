"""What one partition's copy has done since it began."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.copy import window


@dataclass(slots=True)
class Counters:
    """Acknowledged records, bytes and batches; of the newest batch its age in ms when it was
    acknowledged, and its timestamp (-1 while there is none).
    """

    records: int = 0
    bytes: int = 0
    batches: int = 0
    age_ms: int = 0
    newest_ms: int = -1

    def acknowledged(self, sent: window.Sent, *, wall_ms: int) -> None:
        self.records += sent.records
        self.bytes += sent.size
        self.batches += 1
        self.newest_ms = sent.max_timestamp
        if sent.max_timestamp >= 0:
            self.age_ms = max(0, wall_ms - sent.max_timestamp)
