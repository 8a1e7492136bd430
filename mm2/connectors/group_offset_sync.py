"""Writes checkpoints into groups on the target (`sync.group.offsets.enabled`, KIP-545).

Groups are looked at, planned, and just before they are written looked at and planned again: a
group that got members, or went on by itself, stays as it is (`core.offsets.group_sync`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import admin, groups
from mm2.cluster import errors as cluster_errors
from mm2.core.offsets import checkpoints, group_sync

AT_ONCE = 50
"""Groups between whose last look and write no others are looked at."""
_TOPICS_S = 4.0
_ANY = 2**31
_State = group_sync.GroupState
_LOG = logging.getLogger(__name__)


class GroupOffsetSync:
    """`on_target` and `topics` are the target's, and this object's own. What is told of a group
    is told once. `timeout_s` bounds each question."""

    def __init__(self, on_target: groups.Groups, topics: admin.Admin, *, timeout_s: float) -> None:
        self._groups = on_target
        self._topics = topics
        self._timeout_s = timeout_s
        self._told: set[tuple[str, str]] = set()

    def run(self, table: checkpoints.CheckpointTable) -> int:
        """One round; returns how many groups were written. Raises `ConnectError` where the target
        does not answer at all, or refuses us; the groups before it may have been written."""
        names = table.groups()
        chunks = [names[at : at + AT_ONCE] for at in range(0, len(names), AT_ONCE)]
        return sum(self._sync(chunk, table) for chunk in chunks)

    def close(self) -> None:
        self._groups.close()
        self._topics.close()

    def _sync(self, names: Sequence[str], table: checkpoints.CheckpointTable) -> int:
        first = [plan for plan in self._plans(names, table, None) if plan.write]
        if not first:
            return 0
        partitions = self._partitions(first)
        again = [plan.group for plan in first]
        plans = {plan.group: plan for plan in self._plans(again, table, partitions) if plan.write}
        answer = self._groups.write(
            {group: plan.write for group, plan in plans.items()}, self._timeout_s
        )
        for group, error in sorted(answer.failed.items()):
            in_use = isinstance(error, cluster_errors.GroupInUseError)
            self._tell(group, str(error), warns=not in_use)
        for group, refused in sorted(answer.done.items()):
            for place, error in sorted(refused.items()):
                self._tell(group, f"{place}: {error}")
            _LOG.debug("group %s on the target: %d offsets", group, len(plans[group].write))
        return len(answer.done)

    def _plans(
        self,
        names: Sequence[str],
        table: checkpoints.CheckpointTable,
        partitions: Mapping[str, int] | None,
    ) -> list[group_sync.GroupPlan]:
        plans = [
            group_sync.plan(group, table.group(group), seen, partitions=partitions)
            for group, seen in self._look(names).items()
        ]
        if partitions is not None:
            for each in plans:
                self._tell_plan(each)
        return plans

    def _look(self, names: Sequence[str]) -> dict[str, group_sync.TargetGroup]:
        states = self._groups.states(names, self._timeout_s)
        seen = {group: group_sync.TargetGroup(state=state) for group, state in states.done.items()}
        idle = [group for group, state in states.done.items() if state is _State.EMPTY]
        found = self._groups.positions(idle, self._timeout_s)
        for group, positions in found.done.items():
            seen[group] = group_sync.TargetGroup(state=_State.EMPTY, positions=positions)
        for group, error in sorted({**states.failed, **found.failed}.items()):
            seen[group] = group_sync.TargetGroup(state=_State.UNKNOWN)
            self._tell(group, str(error))
        for group, state in sorted(states.done.items()):
            if state in {_State.FOREIGN, _State.UNKNOWN}:
                self._tell(group, f"is {state.value} there, so its offsets are left alone")
        return seen

    def _partitions(self, plans: Iterable[group_sync.GroupPlan]) -> dict[str, int]:
        """How many partitions the target's topics have; of those that we may not see, any."""
        names: Collection[str] = {place.topic for plan in plans for place in plan.write}
        found = self._topics.describe_topics(names, min(self._timeout_s, _TOPICS_S))
        known = {name: topic.partitions for name, topic in found.done.items()}
        for name, error in found.failed.items():
            if not isinstance(error, kafka_errors.TopicMissingError):
                known[name] = _ANY
        return known

    def _tell_plan(self, plan: group_sync.GroupPlan) -> None:
        for place, why in sorted(plan.kept.items()):
            if why is group_sync.Kept.MISSING:
                self._tell(plan.group, f"{place} is not there, so its checkpoint waits")
        for place in sorted(plan.over_none):
            self._tell(
                plan.group, f"it says that it goes on nowhere in {place}; its checkpoint is written"
            )

    def _tell(self, group: str, text: str, *, warns: bool = True) -> None:
        if (group, text) not in self._told:
            self._told.add((group, text))
            _LOG.log(
                logging.WARNING if warns else logging.INFO,
                "group %s on the target: %s",
                group,
                text,
            )
