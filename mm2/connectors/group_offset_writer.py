"""Writes checkpoints to consumer groups on the target (`sync.group.offsets.enabled`, KIP-545).

Every round compares all groups; groups without new checkpoints or changed offsets cost almost
nothing. Groups behind their checkpoints are read again in small batches just before writing, so
a group that has gained members or advanced by itself is left alone.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base import plurals
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.kafka import consumer_groups
from mm2.kafka.client_interfaces import (
    Admin,
    ConsumerGroups,
    GroupInUseError,
    LogOffsets,
    ReportedPositions,
)
from mm2.offsets import group_offset_sync
from mm2.offsets.checkpoint_rules import CheckpointTable
from mm2.offsets.group_offset_sync import GroupState, GroupSyncPlan, TargetGroup, UnchangedReason

MAX_GROUPS_PER_WRITE = 50
"""Groups between whose last look and write no others are looked at."""
_MAX_GROUPS_PER_READ = 500
_TOPICS_TIMEOUT_S = 4.0
_UNKNOWN_PARTITION_COUNT = 2**31
_GroupState = GroupState
_LOG = logging.getLogger(__name__)


class GroupSyncResult(NamedTuple):
    """What a round came to: how many groups were `written`, and how many were `refused`: their
    offsets could not be read or written, in part or at all. Who is in use, of another kind, or
    ahead of the mirror is left alone, and not refused."""

    written: int
    refused: int


@dataclass(slots=True)
class _TargetTopics:
    """What one round has seen of the target's topics: how many partitions they have, and where
    these end. Of those that we may not see nothing is known."""

    partitions: dict[str, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)


class GroupOffsetWriter:
    """`on_target`, `topics` and `ends` are the target's, and this object's own. What is told of a
    group is told once while it lasts. `timeout_s` bounds each question."""

    def __init__(
        self, on_target: ConsumerGroups, topics: Admin, ends: LogOffsets, *, timeout_s: float
    ) -> None:
        self._groups = on_target
        self._topics = topics
        self._logs = ends
        self._timeout_s = timeout_s
        self._told: set[tuple[str, str]] = set()
        self._found: set[tuple[str, str]] = set()
        self._refused: set[str] = set()
        self._seen: ReportedPositions = {}

    def run(self, table: CheckpointTable) -> GroupSyncResult:
        """One round. Raises `ConnectError` where the target does not answer at all, or refuses us;
        the groups before it may have been written."""
        self._found, self._refused = set(), set()
        for group in table.changed:
            self._seen.pop(group, None)
        table.changed.clear()
        written = 0
        there = _TargetTopics()
        for names in consumer_groups.split_into_chunks(table.groups(), _MAX_GROUPS_PER_READ):
            behind = self._behind(names, table)
            for each in behind:  # until it is seen where it should be
                self._seen.pop(each, None)
            for few in consumer_groups.split_into_chunks(behind, MAX_GROUPS_PER_WRITE):
                written += self._sync(few, table, there)
        self._told = self._found  # what is over may be told again
        return GroupSyncResult(written, len(self._refused))

    def close(self) -> None:
        self._groups.close()
        self._topics.close()
        self._logs.close()

    def _behind(self, names: Sequence[str], table: CheckpointTable) -> list[str]:
        """Those that do not stand where their checkpoints are, in whatever state they are."""
        found = self._groups.news(names, self._timeout_s, seen=self._seen)
        for group, error in sorted(found.failed.items()):
            self._refuse(group, str(error))
        return [
            group
            for group, positions in sorted(found.done.items())
            if group_offset_sync.plan_group_sync(
                group,
                table.group(group),
                TargetGroup(state=_GroupState.EMPTY, positions=positions),
            ).write
        ]

    def _sync(self, names: Sequence[str], table: CheckpointTable, there: _TargetTopics) -> int:
        self._look_at_topics(names, table, there)
        plans: dict[str, GroupSyncPlan] = {}
        for group, seen in self._look(names).items():
            plan = group_offset_sync.plan_group_sync(
                group, table.group(group), seen, partitions=there.partitions, ends=there.ends
            )
            self._tell_plan(plan)
            if plan.write:
                plans[group] = plan
        answer = self._groups.write(
            {group: plan.write for group, plan in plans.items()}, self._timeout_s
        )
        for group, error in sorted(answer.failed.items()):
            if isinstance(error, GroupInUseError):
                self._tell(group, str(error), warns=False)
            else:
                self._refuse(group, str(error))
        for group, refused in sorted(answer.done.items()):
            for place, error in sorted(refused.items()):
                self._refuse(group, f"{place}: {error}")
            offsets = plurals.format_count(len(plans[group].write), "offset")
            _LOG.debug("group %s on the target: %s", group, offsets)
        return len(answer.done)

    def _look(self, names: Sequence[str]) -> dict[str, TargetGroup]:
        """The last look: positions after states, and no offset that a transaction may replace."""
        states = self._groups.states(names, self._timeout_s)
        seen = {group: TargetGroup(state=state) for group, state in states.done.items()}
        still = {_GroupState.EMPTY, _GroupState.ABSENT}
        idle = [group for group, state in states.done.items() if state in still]
        found = self._groups.positions(idle, self._timeout_s, stable=True)
        for group, positions in found.done.items():
            state = states.done[group]
            if (
                state is _GroupState.ABSENT and positions
            ):  # it has come meanwhile, or is of another kind
                state = _GroupState.UNKNOWN
            seen[group] = TargetGroup(state=state, positions=positions)
        for group, error in sorted({**states.failed, **found.failed}.items()):
            seen[group] = TargetGroup(state=_GroupState.UNKNOWN)
            self._refuse(group, str(error))
        for group, state in sorted(states.done.items()):
            if state in {_GroupState.FOREIGN, _GroupState.UNKNOWN}:
                self._tell(group, f"is {state.value} there, so its offsets are left alone")
        return seen

    def _look_at_topics(
        self, names: Iterable[str], table: CheckpointTable, there: _TargetTopics
    ) -> None:
        """Whatever is not known yet of where these groups' checkpoints are."""
        farthest: dict[TopicPartition, int] = {}
        for group in names:
            for place, point in table.group(group).items():
                farthest[place] = max(point.downstream, farthest.get(place, 0))
        timeout_s = min(self._timeout_s, _TOPICS_TIMEOUT_S)
        topics: Collection[str] = {place.topic for place in farthest} - there.partitions.keys()
        if topics:
            found = self._topics.describe_topics(topics, timeout_s)
            there.partitions |= {name: topic.partitions for name, topic in found.done.items()}
            for name, error in found.failed.items():
                missing = isinstance(error, TopicMissingError)
                there.partitions[name] = 0 if missing else _UNKNOWN_PARTITION_COUNT
        places = [
            place
            for place, offset in farthest.items()
            if offset > there.ends.get(place, -1)
            and place.partition < there.partitions.get(place.topic, 0)
        ]
        if places:
            ends = self._logs.ends(places, timeout_s).done
            there.ends |= {place: each.end + each.pending for place, each in ends.items()}

    def _tell_plan(self, plan: GroupSyncPlan) -> None:
        for place, why in sorted(plan.kept.items()):
            if why is UnchangedReason.MISSING:
                self._tell(plan.group, f"{place} is not there, so its checkpoint waits")
            if why is UnchangedReason.BEYOND:
                self._tell(plan.group, f"{place} ends before its checkpoint, which waits")
        for place in sorted(plan.over_none):
            self._tell(
                plan.group, f"it says that it goes on nowhere in {place}; its checkpoint is written"
            )

    def _refuse(self, group: str, text: str) -> None:
        self._refused.add(group)
        self._tell(group, text)

    def _tell(self, group: str, text: str, *, warns: bool = True) -> None:
        self._found.add((group, text))
        if (group, text) not in self._told:
            self._told.add((group, text))
            _LOG.log(
                logging.WARNING if warns else logging.INFO,
                "group %s on the target: %s",
                group,
                text,
            )
