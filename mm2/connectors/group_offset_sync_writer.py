"""Writes checkpoints to consumer groups on the target (`sync.group.offsets.enabled`, KIP-545).

Every pass compares the committed offsets of all groups with their checkpoints. Groups without new
checkpoints or changed offsets cause almost no work. Groups that are behind their checkpoints are
read again in small batches just before their offsets are written. A group that has gained members
or advanced in the meantime is not changed.
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
from mm2.kafka.kafka_client_interfaces import (
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
"""Maximum number of groups that are read and then written together. Limits the time between reading
and writing a group."""
_MAX_GROUPS_PER_READ = 500
_TOPICS_TIMEOUT_S = 4.0
_UNKNOWN_PARTITION_COUNT = 2**31
_GroupState = GroupState
_LOG = logging.getLogger(__name__)


class GroupSyncResult(NamedTuple):
    """Result of one pass of `GroupOffsetWriter` over all groups."""

    written: int
    """Number of groups whose offsets were written."""
    failed: int
    """Number of groups for which some offsets could not be read or written. Groups that are in use,
    of another type, or ahead of the mirror are skipped and not counted."""


@dataclass(slots=True)
class _TargetTopics:
    """Partition counts and end offsets of target topics, cached for one pass over all groups.
    Topics without DESCRIBE permission have no entry."""

    partitions: dict[str, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)


class GroupOffsetWriter:
    """Writes checkpoints to consumer groups on the target.

    Owns the clients `groups`, `topics` and `log_offsets`. A group's problem is logged only once
    while it persists. `timeout_s` limits each request.
    """

    def __init__(
        self, groups: ConsumerGroups, topics: Admin, log_offsets: LogOffsets, *, timeout_s: float
    ) -> None:
        self._groups = groups
        self._topics = topics
        self._logs = log_offsets
        self._timeout_s = timeout_s
        self._logged_problems: set[tuple[str, str]] = set()
        self._current_problems: set[tuple[str, str]] = set()
        self._failed_groups: set[str] = set()
        self._last_positions: ReportedPositions = {}

    def write_changed_offsets(self, table: CheckpointTable) -> GroupSyncResult:
        """Compare the offsets of all groups with their checkpoints once, and write those that must
        change. Raises `ConnectError` if the target does not respond or denies access. Some groups'
        offsets may have been written before the error."""
        self._current_problems, self._failed_groups = set(), set()
        for group in table.changed:
            self._last_positions.pop(group, None)
        table.changed.clear()
        written = 0
        target_topics = _TargetTopics()
        for names in consumer_groups.split_into_chunks(table.list_groups(), _MAX_GROUPS_PER_READ):
            to_write = self._find_groups_to_write(names, table)
            for each in to_write:  # reported again until their offsets are as planned
                self._last_positions.pop(each, None)
            for chunk in consumer_groups.split_into_chunks(to_write, MAX_GROUPS_PER_WRITE):
                written += self._write_group_offsets(chunk, table, target_topics)
        self._logged_problems = (
            self._current_problems
        )  # problems that disappeared are logged again if they return
        return GroupSyncResult(written, len(self._failed_groups))

    def close(self) -> None:
        self._groups.close()
        self._topics.close()
        self._logs.close()

    def _find_groups_to_write(self, names: Sequence[str], table: CheckpointTable) -> list[str]:
        """Find the groups whose offsets on the target must be changed to match their checkpoints,
        regardless of the groups' states."""
        results = self._groups.fetch_changed_committed_offsets(
            names, self._timeout_s, seen=self._last_positions
        )
        for group, error in sorted(results.failed.items()):
            self._record_group_failure(group, str(error))
        return [
            group
            for group, positions in sorted(results.succeeded.items())
            if group_offset_sync.plan_group_sync(
                group,
                table.get_group_checkpoints(group),
                TargetGroup(state=_GroupState.EMPTY, positions=positions),
            ).write
        ]

    def _write_group_offsets(
        self, names: Sequence[str], table: CheckpointTable, target_topics: _TargetTopics
    ) -> int:
        self._read_target_topics(names, table, target_topics)
        plans: dict[str, GroupSyncPlan] = {}
        for group, seen in self._read_groups(names).items():
            plan = group_offset_sync.plan_group_sync(
                group,
                table.get_group_checkpoints(group),
                seen,
                partitions=target_topics.partitions,
                ends=target_topics.ends,
            )
            self._log_sync_plan(plan)
            if plan.write:
                plans[group] = plan
        results = self._groups.commit_offsets(
            {group: plan.write for group, plan in plans.items()}, self._timeout_s
        )
        for group, error in sorted(results.failed.items()):
            if isinstance(error, GroupInUseError):
                self._log_group_problem(group, str(error), warns=False)
            else:
                self._record_group_failure(group, str(error))
        for group, refused in sorted(results.succeeded.items()):
            for place, error in sorted(refused.items()):
                self._record_group_failure(group, f"{place}: {error}")
            offsets = plurals.format_count(len(plans[group].write), "offset")
            _LOG.debug("group %s on the target: %s", group, offsets)
        return len(results.succeeded)

    def _read_groups(self, names: Sequence[str]) -> dict[str, TargetGroup]:
        """Read groups just before writing their offsets: first the group states, then the committed
        offsets of idle groups. Offsets with pending transactional commits are not read."""
        states = self._groups.describe_group_states(names, self._timeout_s)
        seen = {group: TargetGroup(state=state) for group, state in states.succeeded.items()}
        idle_states = {_GroupState.EMPTY, _GroupState.ABSENT}
        idle_groups = [group for group, state in states.succeeded.items() if state in idle_states]
        results = self._groups.fetch_committed_offsets(idle_groups, self._timeout_s, stable=True)
        for group, positions in results.succeeded.items():
            state = states.succeeded[group]
            if (
                state is _GroupState.ABSENT and positions
            ):  # created since the states were read, or of another type
                state = _GroupState.UNKNOWN
            seen[group] = TargetGroup(state=state, positions=positions)
        for group, error in sorted({**states.failed, **results.failed}.items()):
            seen[group] = TargetGroup(state=_GroupState.UNKNOWN)
            self._record_group_failure(group, str(error))
        for group, state in sorted(states.succeeded.items()):
            if state in {_GroupState.FOREIGN, _GroupState.UNKNOWN}:
                self._log_group_problem(
                    group, f"its state is {state.value}, so its offsets are not changed"
                )
        return seen

    def _read_target_topics(
        self, names: Iterable[str], table: CheckpointTable, target_topics: _TargetTopics
    ) -> None:
        """Read the partition counts and end offsets that are needed to check the checkpoints of the
        groups `names`. Cached values are not read again."""
        farthest: dict[TopicPartition, int] = {}
        for group in names:
            for place, point in table.get_group_checkpoints(group).items():
                farthest[place] = max(point.downstream, farthest.get(place, 0))
        timeout_s = min(self._timeout_s, _TOPICS_TIMEOUT_S)
        topics: Collection[str] = {
            place.topic for place in farthest
        } - target_topics.partitions.keys()
        if topics:
            results = self._topics.describe_topics(topics, timeout_s)
            target_topics.partitions |= {
                name: topic.partition_count for name, topic in results.succeeded.items()
            }
            for name, error in results.failed.items():
                missing = isinstance(error, TopicMissingError)
                target_topics.partitions[name] = 0 if missing else _UNKNOWN_PARTITION_COUNT
        places = [
            place
            for place, offset in farthest.items()
            if offset > target_topics.ends.get(place, -1)
            and place.partition < target_topics.partitions.get(place.topic, 0)
        ]
        if places:
            ends = self._logs.fetch_log_bounds(places, timeout_s).succeeded
            target_topics.ends |= {place: each.end + each.pending for place, each in ends.items()}

    def _log_sync_plan(self, plan: GroupSyncPlan) -> None:
        for place, reason in sorted(plan.unchanged.items()):
            if reason is UnchangedReason.MISSING:
                self._log_group_problem(
                    plan.group,
                    f"{place} does not exist, so the group's checkpoint is not written yet",
                )
            if reason is UnchangedReason.BEYOND:
                self._log_group_problem(
                    plan.group,
                    f"{place} ends before the group's checkpoint, which is not written yet",
                )
        for place in sorted(plan.replaces_empty):
            self._log_group_problem(
                plan.group,
                f"its offset for {place} is negative and is replaced with the checkpoint",
            )

    def _record_group_failure(self, group: str, text: str) -> None:
        self._failed_groups.add(group)
        self._log_group_problem(group, text)

    def _log_group_problem(self, group: str, text: str, *, warns: bool = True) -> None:
        self._current_problems.add((group, text))
        if (group, text) not in self._logged_problems:
            self._logged_problems.add((group, text))
            _LOG.log(
                logging.WARNING if warns else logging.INFO,
                "group %s on the target: %s",
                group,
                text,
            )
