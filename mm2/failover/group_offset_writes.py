"""Writes group offsets on the destination cluster, reads them back and verifies them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import NotAuthorizedError
from mm2.failover import failover_context, plan_findings
from mm2.failover.failover_context import FailoverContext
from mm2.failover.failover_request import FailoverRequest
from mm2.failover.journal_step_results import FinalPositions
from mm2.kafka.kafka_client_interfaces import GroupInUseError
from mm2.offsets.checkpoint_rules import CommittedPositions
from mm2.offsets.group_offset_sync import GroupState

LOWER_POSITION_CODE = "lower-position"
"""Code with which an operator accepts that a group's position is lower than the written
position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPosition:
    """A group's committed offset in one destination partition, compared with the offset that the
    failover wrote (the final position)."""

    group: str
    partition: TopicPartition
    written_offset: int
    offset: int | None
    """The group's committed offset, or None if it has none."""

    @property
    def is_below_written_offset(self) -> bool:
        """True if the group would re-read records. A higher offset is fine because the group may
        already be consuming."""
        return self.offset is None or self.offset < self.written_offset

    def __str__(self) -> str:
        at = "no committed offset" if self.offset is None else f"committed offset {self.offset}"
        return f"group {self.group}, {self.partition}: {at} instead of {self.written_offset}"


def compare_committed_offsets(
    finals: Mapping[str, FinalPositions], current: Mapping[str, CommittedPositions]
) -> list[VerifiedPosition]:
    """Compare the committed offset of each group and partition with the position that the failover
    wrote for it."""
    found = []
    for group, final in sorted(finals.items()):
        for partition, to in sorted(final.positions.items()):
            at = current.get(group, {}).get(partition)
            found.append(
                VerifiedPosition(
                    group=group,
                    partition=partition,
                    written_offset=to.offset,
                    offset=None if at is None else at.offset,
                )
            )
    return found


def select_unaccepted_positions(
    found: Iterable[VerifiedPosition], accepted: Collection[str]
) -> list[VerifiedPosition]:
    """Select the committed offsets that are lower than the failover's final positions and that the
    operator has not accepted (`FailoverRequest.accepted`)."""
    return [
        each
        for each in found
        if each.is_below_written_offset
        and not {LOWER_POSITION_CODE, f"{LOWER_POSITION_CODE}:{each.group}"}.intersection(accepted)
    ]


def explain_unaccepted_positions(
    found: Collection[VerifiedPosition], wanted: FailoverRequest, *, journal: str
) -> str:
    """Explain which groups are below their final positions, and which commands to use next."""
    groups = sorted({each.group for each in found})
    only = [word for each in groups for word in ("--group", each)]
    accept = [word for each in groups for word in ("--accept", f"{LOWER_POSITION_CODE}:{each}")]
    return (
        f"groups have lower offsets than the failover wrote: {'; '.join(map(str, found))}. "
        "Their offsets may have been reset, and they would re-read records. To move them again: "
        f"{wanted.build_command(*only, '--execute')}; to leave them as they are and resume the "
        f"failover: {wanted.build_command('--resume', '--journal', journal, *accept)}"
    )


def position_to_json(each: VerifiedPosition) -> Mapping[str, Any]:
    """Encode a verified position for the journal and the report."""
    return {
        "group": each.group,
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "written_offset": each.written_offset,
        "current_offset": each.offset,
        "is_below_written_offset": each.is_below_written_offset,
    }


def write_group_offsets(
    context: FailoverContext,
    finals: Mapping[str, FinalPositions],
    request: FailoverRequest,
    *,
    moved: Collection[str],
    on_moved: Callable[[str], object],
) -> list[str]:
    """Commit the groups' final positions on the destination. Return the groups that could not be
    moved and that the operator has accepted to skip.

    Offsets that are already at or above the final position are not written again, because an
    earlier run may have crashed after the write, or the group may be consuming. `on_moved` is
    called for each group that is completed. Raises `RetriableError` if a group could not be moved
    and the operator has not accepted this.
    """
    groups, timeout_s = context.clusters.target.groups, context.planner.timeout_s
    standing = groups.fetch_committed_offsets(
        [name for name in finals if name not in moved], timeout_s
    )
    writes = {
        name: finals[name].select_positions_to_write(stands)
        for name, stands in standing.succeeded.items()
    }
    written = groups.commit_offsets(
        {name: each for name, each in writes.items() if each}, failover_context.WRITE_TIMEOUT_S
    )
    whole = {name for name, places in written.succeeded.items() if not places}
    for name in sorted(writes):
        if name in whole or not writes[name]:
            on_moved(name)
    refused = [
        f"group {name}, {place}: {error}"
        for name, places in sorted(written.succeeded.items())
        for place, error in places.items()
    ]
    left = []
    for name, failure in sorted({**standing.failed, **written.failed}.items()):
        code = _choose_finding_code(failure)
        if request.is_finding_accepted(code, name):
            left.append(name)
        else:
            option = plan_findings.format_accept_option(code, name)
            refused.append(f"group {name}: {failure} (to skip it: {option})")
    if refused:
        raise RetriableError(f"not all groups were moved: {'; '.join(refused)}")
    return left


def _choose_finding_code(failure: ConnectError) -> str:
    """Return the plan finding code that corresponds to an error."""
    if isinstance(failure, GroupInUseError):
        return plan_findings.GROUP_ACTIVE
    if isinstance(failure, NotAuthorizedError):
        return plan_findings.GROUP_WRITE_DENIED
    return plan_findings.GROUP_UNKNOWN


def record_written_groups(
    context: FailoverContext,
    finals: Mapping[str, FinalPositions],
    *,
    moved: Collection[str],
    on_moved: Callable[[str], object],
) -> None:
    """Record groups as moved if they have members and their committed offsets have reached the
    final positions. An interrupted run has then already written the offsets."""
    groups, timeout_s = context.clusters.target.groups, context.planner.timeout_s
    states = groups.describe_group_states(
        [name for name in finals if name not in moved], timeout_s
    ).succeeded
    active = [name for name, state in states.items() if state is GroupState.ACTIVE]
    for name, at in sorted(groups.fetch_committed_offsets(active, timeout_s).succeeded.items()):
        if not finals[name].select_positions_to_write(at):
            on_moved(name)


def read_group_offsets(
    context: FailoverContext, finals: Mapping[str, FinalPositions]
) -> Mapping[str, CommittedPositions]:
    """Read the groups' committed offsets on the destination."""
    found = context.clusters.target.groups.fetch_committed_offsets(
        list(finals), context.planner.timeout_s
    )
    failure = found.get_first_failure()
    if failure is not None:
        raise failure
    return found.succeeded
