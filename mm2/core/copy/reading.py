"""How far a partition's source has been read, and what its log was last seen to be."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.copy import outbox, source_batches


@dataclass(slots=True, kw_only=True)
class Reading:
    """`position` is fetched next and `epoch` is the leader epoch before it; -1 while unknown.

    `end` is the source's last stable offset, `log_start` where its log starts, as of the last
    fetch. An `obstacle` stands at `position`: nothing behind it was looked at.
    """

    position: int = -1
    epoch: int = -1
    end: int = -1
    log_start: int = -1
    obstacle: source_batches.Obstacle | None = None

    def begin(self, position: int, *, epoch: int) -> None:
        self.position, self.epoch = position, epoch
        self.obstacle = None

    def found(self, scan: source_batches.Scan) -> None:
        """What a fetch from `position` on brought."""
        if scan.position > self.position:
            self.position, self.epoch = scan.position, scan.leader_epoch
        self.obstacle = scan.obstacle

    def go_back(self, first: outbox.Place) -> None:
        """What was found from there on is dropped unsent: it must be fetched again."""
        # Its own epoch, not that of the batch before it: the source knows both.
        self.begin(first.source, epoch=first.epoch)
