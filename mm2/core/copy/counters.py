"""What one partition's copy has done since it began."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mm2.core.copy import ages, crossing, refusals, source_batches, window


@dataclass(slots=True)
class Counters:
    """Acknowledged records, bytes and batches; of the newest batch its age in ms when it was
    acknowledged, and its timestamp (-1 while there is none).

    `made` counts the batches that were not passed through, and `why` says why the newest was not,
    "" when it was. `spared` counts records that the target had, or got from somebody else, so that
    they were not copied again. How old records were when they came is `arrived`, when their copies
    were acknowledged `stored`: of those alone since `take_ages`. `crossing` is the whole copy's.
    """

    records: int = 0
    bytes: int = 0
    batches: int = 0
    made: int = 0
    age_ms: int = 0
    newest_ms: int = -1
    why: str = ""
    spared: int = 0
    arrived: ages.Ages = ages.NONE
    stored: ages.Ages = ages.NONE
    crossing: crossing.Crossing = field(default_factory=crossing.Crossing)

    def fetched(self, batches: Iterable[source_batches.Copyable], *, wall_ms: int) -> None:
        """Whether they will be copied, or dropped and fetched again, is not known yet."""
        for each in batches:
            header = each.header
            self.arrived = self.arrived.plus(ages.of_source(header, wall_ms=wall_ms))
            if header.max_timestamp > wall_ms:
                self.crossing.came(header.max_timestamp, wall_ms)

    def acknowledged(self, sent: window.Sent, *, now_s: float, wall_ms: int) -> None:
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
        late = ages.of_batch(
            batch.records,
            oldest_ms=batch.oldest_timestamp,
            newest_ms=batch.max_timestamp,
            wall_ms=wall_ms,
        )
        self.stored = self.stored.plus(late)
        self.crossing.acknowledged(late, now_s)

    def refused(self, code: int, sent: window.Sent) -> None:
        """Kafka refused the batch, by its error code."""
        if code in refusals.STANDS_ALREADY:
            self.spared += sent.batch.records

    def take_ages(self) -> tuple[ages.Ages, ages.Ages]:
        """`arrived` and `stored`, which begin anew."""
        taken = (self.arrived, self.stored)
        self.arrived = self.stored = ages.NONE
        return taken
