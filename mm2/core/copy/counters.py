"""What one partition's copy has done since it began."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.copy import window


@dataclass(slots=True)
class Counters:
    """Acknowledged records, bytes and batches; of the newest batch its age in ms when it was
    acknowledged, and its timestamp (-1 while there is none).

    `made` counts the batches that were not passed through, and `why` says why the newest was not,
    "" when it was.
    """

    records: int = 0
    bytes: int = 0
    batches: int = 0
    made: int = 0
    age_ms: int = 0
    newest_ms: int = -1
    why: str = ""

    def acknowledged(self, sent: window.Sent, *, wall_ms: int) -> None:
        batch = sent.batch
        self.records += batch.records
        self.bytes += sent.size
        self.batches += 1
        self.why = batch.why
        if batch.why:
            self.made += 1
        self.newest_ms = batch.max_timestamp
        if batch.max_timestamp >= 0:
            self.age_ms = max(0, wall_ms - batch.max_timestamp)
