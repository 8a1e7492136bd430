"""Handles rebalances: stops revoked work, applies the new assignment and stays in sync with the
group.

The steps and their order are the same as in Java's DistributedHerder, for the same reasons. Unlike
Java, this herder rejoins during a delayed rebalance (after a worker was lost) only when the delay
has expired, not at every tick. Otherwise, each config topic record would cause another rebalance
during the delay.
"""

from __future__ import annotations

import dataclasses

from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder import herder_state, leader_duties
from connect_runtime.herder.herder_actions import (
    ConfirmJoinPrepared,
    FlushStatuses,
    LeaveGroup,
    ResetActiveTopics,
    RevokeAssignment,
    RunLeadershipCallback,
    WriteLogLine,
)
from connect_runtime.herder.herder_events import AssignmentReceived
from connect_runtime.herder.herder_state import HerderProcedure, HerderState, SleepUntil

_BACKOFF_FRACTION = 10
"""Divisor that determines the wait between two attempts to read the config topic: the maximum
rebalance delay is divided by this number and by the number of remaining attempts."""


def prepare_to_join_group(herder: HerderState, stop: ConnectorsAndTasks) -> HerderProcedure[None]:
    """Stop the work that must not run during the rebalance, then confirm to the group that this
    worker is ready to join."""
    herder.is_joined = False
    herder.has_left = False
    yield from _stop_and_flush_work(herder, stop)
    yield ConfirmJoinPrepared()


def _stop_and_flush_work(herder: HerderState, stop: ConnectorsAndTasks) -> HerderProcedure[None]:
    """Stop work and flush its statuses, so that other workers can start the stopped connectors
    and tasks."""
    if not stop:
        return
    yield from herder_state.stop_connectors_and_tasks(herder, stop)
    if herder.settings.topics_tracked:
        names = {*stop.connectors, *(task.connector for task in stop.tasks)}
        for name in sorted(names):
            if not herder.snapshot.config.has_connector(name):
                yield ResetActiveTopics(name)
    yield FlushStatuses()


def accept_assignment(
    herder: HerderState, assignment_event: AssignmentReceived
) -> HerderProcedure[None]:
    """Accept the assignment of a completed rebalance: stop revoked work and take over
    leadership."""
    lost = assignment_event.assignment.delay_ms > 0 or assignment_event.assignment.failed
    yield WriteLogLine(_describe_assignment(assignment_event), is_warning=lost)
    yield from _stop_and_flush_work(herder, assignment_event.items_to_stop)
    herder.last_rebalance, herder.is_joined, herder.is_assignment_started = (
        assignment_event,
        True,
        False,
    )
    delay_ms = assignment_event.assignment.delay_ms
    herder.rejoin_due_s = herder.snapshot.now_s + delay_ms / 1000 if delay_ms > 0 else None
    if assignment_event.is_leader:
        yield from leader_duties.assume_leadership(herder)


def _describe_assignment(assignment_event: AssignmentReceived) -> str:
    assignment = assignment_event.assignment
    if assignment_event.is_leader:
        role = "leader"
    else:
        role = f"follower of {assignment.leader_url or 'an unknown leader'}"
    text = (
        f"joined generation {assignment_event.generation} as {role}:"
        f" assigned {assignment.assigned.summary}"
    )
    if assignment_event.items_to_stop:
        text += f", revoked {assignment_event.items_to_stop.summary}"
    if assignment.delay_ms > 0:
        text += f"; the next rebalance reassigns lost work in {assignment.delay_ms / 1000:g} s"
    if assignment.failed:
        text += "; the rebalance failed"
    return text


def handle_coordinator_loss(herder: HerderState, reason: str) -> HerderProcedure[None]:
    """Stop all work, because other workers may receive it while the group has no coordinator."""
    yield WriteLogLine(f"stopping all connectors and tasks: {reason}", is_warning=True)
    yield from _stop_and_flush_work(herder, herder.running)
    herder.last_rebalance, herder.is_joined, herder.is_assignment_started, herder.rejoin_due_s = (
        None,
        False,
        False,
        None,
    )


def apply_assignment(herder: HerderState) -> HerderProcedure[bool]:
    """Read the config topic up to the offset that the assignment is based on, and start the
    assigned work.

    Return False if another rebalance was requested or this worker left the group.
    """
    if herder.rejoin_due_s is not None and herder.snapshot.now_s >= herder.rejoin_due_s:
        herder.rejoin_due_s = None
        yield from herder_state.request_group_rejoin(
            herder, "the scheduled rebalance delay has expired"
        )
        return False
    if herder.is_assignment_started:
        return True
    assert herder.last_rebalance is not None
    assignment = herder.last_rebalance.assignment
    is_behind = herder.applied_config.offset < assignment.config_offset
    if (is_behind or (assignment.failed and herder.last_rebalance.is_leader)) and not (
        yield from sync_config_topic(herder)
    ):
        return False
    if assignment.failed:
        yield from herder_state.request_group_rejoin(
            herder, "the rebalance failed: another worker had read more of the config topic"
        )
        return False
    if herder.applied_config.offset != assignment.config_offset:
        yield from herder_state.request_group_rejoin(
            herder,
            f"the assignment is based on config offset {assignment.config_offset}, but this worker"
            f" has read the config topic up to offset {herder.applied_config.offset}",
        )
        return False
    yield from _start_assigned_work(herder)
    herder.is_assignment_started = True
    if assignment.revoked:
        herder.last_rebalance = dataclasses.replace(
            herder.last_rebalance,
            assignment=dataclasses.replace(assignment, revoked=connectors_and_tasks.NO_WORK),
        )
        yield from herder_state.request_group_rejoin(
            herder, "revoked connectors and tasks have stopped and can be reassigned"
        )
        return False
    if herder.is_leader and not herder.was_leader:
        yield RunLeadershipCallback()
    herder.was_leader = herder.is_leader
    return True


def _start_assigned_work(herder: HerderState) -> HerderProcedure[None]:
    yield from _stop_and_flush_work(herder, herder.running.difference(herder.assigned_work.items))
    herder.running = herder.running.difference(herder.tasks_to_restart)
    herder.tasks_to_restart.clear()
    yield from herder_state.start_connectors_and_tasks(
        herder, herder.assigned_work.difference(herder.running.items)
    )


def sync_config_topic(herder: HerderState) -> HerderProcedure[bool]:
    """Read the config topic to its end. On timeout, leave the group, wait and return False.

    A worker that keeps an assignment that it cannot apply would block the whole group. A follower
    keeps its work running while it retries, because the leader leaves this work unassigned for
    longer than the retries take. The leader stops its work before it leaves: its work would be
    reassigned immediately, because no other worker knows which connectors and tasks the old leader
    was running. (Java's leader keeps its work running.) Every worker stops its work under the eager
    protocol, or if the rebalance delay is 0.
    """
    if (yield from herder_state.read_config_topic(herder)):
        herder.sync_attempts_left = herder_state.MAX_SYNC_ATTEMPTS
        return True
    if not herder.has_left:
        if (
            herder.is_leader
            or herder.uses_eager_protocol
            or herder.settings.rebalance_delay_max_s == 0
        ):
            yield from _revoke_all_work(herder)
        herder.has_left, herder.is_joined, herder.requested_stop = True, False, None
        yield LeaveGroup("timed out reading the config topic to its end")
    yield from _wait_before_sync_retry(herder)
    return False


def _wait_before_sync_retry(herder: HerderState) -> HerderProcedure[None]:
    if herder.uses_eager_protocol:
        yield SleepUntil(herder.snapshot.now_s + herder.settings.sync_retry_backoff_s)
        return
    if herder.sync_attempts_left > 0:
        wait_s = (
            herder.settings.rebalance_delay_max_s / _BACKOFF_FRACTION / herder.sync_attempts_left
        )
        herder.sync_attempts_left -= 1
        yield SleepUntil(herder.snapshot.now_s + wait_s)
        return
    herder.sync_attempts_left = herder_state.MAX_SYNC_ATTEMPTS
    yield WriteLogLine(
        "stopping all work: failed to read the config topic in "
        f"{herder_state.MAX_SYNC_ATTEMPTS} attempts"
    )
    yield from _revoke_all_work(herder)


def _revoke_all_work(herder: HerderState) -> HerderProcedure[None]:
    """Stop all work and join without an assignment."""
    yield from _stop_and_flush_work(herder, herder.running)
    yield RevokeAssignment()
