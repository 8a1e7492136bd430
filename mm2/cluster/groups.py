"""Port: consumer groups of a cluster, seen and changed from outside.

Every call takes the seconds it may last, waits for the cluster's answer, and reports group by
group: one that fails never stands in the way of the others. What concerns the whole cluster
(unreachable, credentials refused) is raised instead. One thread at a time calls.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from connect_runtime.base import errors, ids
from mm2.core.groups import relevant
from mm2.core.offsets import checkpoints, group_sync

T = TypeVar("T")

Written = Mapping[ids.TopicPartition, checkpoints.OffsetAndMetadata]
Seen = dict[str, bytes]
"""What groups had, for `Groups.news` alone to read and write. Take out whoever is to be told of
again; an empty one is the beginning."""
Refused = Mapping[ids.TopicPartition, errors.ConnectError]
"""Partitions whose offset stayed as it was, and why; usually none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerGroup(Generic[T]):
    """What became of each group asked about: every one is in exactly one of the two."""

    done: Mapping[str, T]
    failed: Mapping[str, errors.ConnectError]

    def first_failure(self) -> errors.ConnectError | None:
        """The failure of the first group by name; None where there is none."""
        return self.failed[min(self.failed)] if self.failed else None


class Groups(Protocol):
    """One cluster's. All raise `RetriableError` when time is up without an answer, or when nobody
    waits for it any more, and `FatalError` as soon as we are refused as a whole."""

    def list_groups(self, timeout_s: float) -> list[relevant.Listed]:
        """All that we may DESCRIBE, in whatever state. Every broker is asked, and has to answer."""

    def states(self, groups: Collection[str], timeout_s: float) -> PerGroup[group_sync.GroupState]:
        """How each stands now; never `UNKNOWN` but where the cluster's word for it is."""

    def members(self, groups: Collection[str], timeout_s: float) -> PerGroup[tuple[str, ...]]:
        """Where the members of each are: a host for each member, also of Connect workers. Those of
        groups of the new protocol (KIP-848) are not told."""

    def assignors(self, groups: Collection[str], timeout_s: float) -> PerGroup[str]:
        """The assignor that the members of each classic group have agreed on, as `range`; of Kafka
        Streams it is `stream`. "" where there are no members, and of other groups."""

    def positions(
        self, groups: Collection[str], timeout_s: float, *, stable: bool = False
    ) -> PerGroup[checkpoints.Positions]:
        """All that each has committed; a group that does not exist has nothing.

        `stable`: groups are failed of which a transaction that is still open has offsets, where
        brokers can tell (2.5).
        """

    def share_partitions(
        self, groups: Collection[str], timeout_s: float
    ) -> PerGroup[frozenset[ids.TopicPartition]]:
        """What share groups (KIP-932) read: partitions that they have a start offset in, or wait
        for one. Empty for a group that has never had members; a group is failed as soon as one
        of its partitions cannot be read."""

    def news(
        self, groups: Collection[str], timeout_s: float, *, seen: Seen
    ) -> PerGroup[checkpoints.Positions]:
        """As `positions`, without the groups that have what they had when `seen` was told, as far
        as brokers can be asked for many at once (3.0): those are in neither of the two."""

    def write(self, offsets: Mapping[str, Written], timeout_s: float) -> PerGroup[Refused]:
        """Give groups these offsets, which makes those that do not exist.

        Of groups with members brokers refuse it: `failed` has `GroupInUseError`. Asked once: what
        may not have been heard is failed, since later it may be wrong.
        """

    def close(self) -> None:
        """Let go of the connections."""
