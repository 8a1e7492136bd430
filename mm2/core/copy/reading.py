"""How far a partition's source has been read, and what its log was last seen to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mm2.core.copy import instructions, outbox, source_batches


@dataclass(slots=True, kw_only=True)
class Reading:
    """`position` is fetched next and `epoch` is the leader epoch before it; -1 while unknown.

    `end` is the source's last stable offset, `log_start` where its log starts, as of the last
    fetch. An `obstacle` stands at `position`, or a batch of one of `strangers`: nothing behind it
    was looked at.
    """

    position: int = -1
    epoch: int = -1
    end: int = -1
    log_start: int = -1
    obstacle: source_batches.Obstacle | None = None
    strangers: tuple[int, ...] = ()

    @property
    def stuck(self) -> bool:
        """Must something else happen before more can be read?"""
        return self.obstacle is not None or bool(self.strangers)

    def begin(self, position: int, *, epoch: int) -> None:
        self.position, self.epoch = position, epoch
        self.obstacle = None
        self.strangers = ()

    def took(
        self,
        records: instructions.Records,
        *,
        target_codec: int | None,
        opposite: Mapping[int, bool] | None,
    ) -> source_batches.Scan:
        """What a fetch from `position` on brought, sorted as by `source_batches.scan`."""
        self.end, self.log_start = records.end, records.log_start
        scan = source_batches.scan(
            records.records,
            position=self.position,
            aborted=records.aborted,
            target_codec=target_codec,
            opposite=opposite,
        )
        if scan.position > self.position:
            self.position, self.epoch = scan.position, scan.leader_epoch
        self.obstacle, self.strangers = scan.obstacle, scan.strangers
        return scan

    def go_back(self, first: outbox.Place) -> None:
        """What was found from there on is dropped unsent: it must be fetched again."""
        # Its own epoch, not that of the batch before it: the source knows both.
        self.begin(first.source, epoch=first.epoch)
