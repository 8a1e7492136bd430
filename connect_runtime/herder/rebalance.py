"""Rebalances: stops revoked work, applies the new assignment and keeps in step with the group.

Sequence and reasons are those of Java's DistributedHerder. Unlike there, an assignment that is
delayed for a lost worker is rejoined only when its delay has passed, not at every tick; otherwise
each record in the config topic would cause another rebalance meanwhile.
"""

from __future__ import annotations

import dataclasses

from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder import herder_state, leader_duties
from connect_runtime.herder.herder_actions import (
    ConfirmJoinPrepared,
    FlushStatuses,
    LeadershipAcquired,
    LeaveGroup,
    ResetActiveTopics,
    RevokeAssignment,
    WriteLogLine,
)
from connect_runtime.herder.herder_events import AssignmentReceived
from connect_runtime.herder.herder_state import HerderScript, HerderState, SleepUntil

_BACKOFF_FRACTION = 10
"""The tries to get into step wait a tenth of the rebalance delay, each over the tries left."""


def prepare_to_join(m: HerderState, stop: ConnectorsAndTasks) -> HerderScript[None]:
    """The group wants to meet: stop what may not run meanwhile."""
    m.joined = False
    m.left = False
    yield from _release_work(m, stop)
    yield ConfirmJoinPrepared()


def _release_work(m: HerderState, stop: ConnectorsAndTasks) -> HerderScript[None]:
    """Others may run this next: it must have stopped, and said so, before they do."""
    if not stop:
        return
    yield from herder_state.stop_items(m, stop)
    if m.settings.topics_tracked:
        names = {*stop.connectors, *(task.connector for task in stop.tasks)}
        for name in sorted(names):
            if not m.seen.config.contains(name):
                yield ResetActiveTopics(name)
    yield FlushStatuses()


def accept_assignment(m: HerderState, arrived: AssignmentReceived) -> HerderScript[None]:
    """A round is complete: give back what is revoked, and take up what it means to lead."""
    lost = arrived.assignment.delay_ms > 0 or arrived.assignment.failed
    yield WriteLogLine(_describe_assignment(arrived), warns=lost)
    yield from _release_work(m, arrived.stop)
    m.round, m.joined, m.resolved = arrived, True, False
    delay_ms = arrived.assignment.delay_ms
    m.due_s = m.seen.now_s + delay_ms / 1000 if delay_ms > 0 else None
    if arrived.leads:
        yield from leader_duties.assume_leadership(m)


def _describe_assignment(arrived: AssignmentReceived) -> str:
    assignment = arrived.assignment
    part = "leading" if arrived.leads else f"led from {assignment.leader_url or 'nowhere'}"
    text = f"in generation {arrived.generation}, {part}: to run {assignment.assigned.counted}"
    if arrived.stop:
        text += f", to give back {arrived.stop.counted}"
    if assignment.delay_ms > 0:
        text += f"; in {assignment.delay_ms / 1000:g} s the group meets again for lost work"
    if assignment.failed:
        text += "; the round failed"
    return text


def handle_coordinator_loss(m: HerderState, reason: str) -> HerderScript[None]:
    """Nobody coordinates the group any more; nothing may run until somebody does."""
    yield WriteLogLine(f"stopping all connectors and tasks: {reason}", warns=True)
    yield from _release_work(m, m.running)
    m.round, m.joined, m.resolved, m.due_s = None, False, False, None


def apply_assignment(m: HerderState) -> HerderScript[bool]:
    """Bring this worker into step with the round, and start its work.

    False: another round was asked for, or this worker left the group.
    """
    if m.due_s is not None and m.seen.now_s >= m.due_s:
        m.due_s = None
        yield from herder_state.rejoin_group(m, "the delay of the last round has passed")
        return False
    if m.resolved:
        return True
    assert m.round is not None
    assignment = m.round.assignment
    behind = m.config.offset < assignment.config_offset
    if (behind or (assignment.failed and m.round.leads)) and not (yield from sync_config_topic(m)):
        return False
    if assignment.failed:
        yield from herder_state.rejoin_group(
            m, "the round failed: somebody had read more configurations"
        )
        return False
    if m.config.offset != assignment.config_offset:
        yield from herder_state.rejoin_group(
            m,
            f"the round was made at config offset {assignment.config_offset}, and this worker has"
            f" read to {m.config.offset}",
        )
        return False
    yield from _start_assigned(m)
    m.resolved = True
    if assignment.revoked:
        m.round = dataclasses.replace(
            m.round,
            assignment=dataclasses.replace(assignment, revoked=connectors_and_tasks.NO_WORK),
        )
        yield from herder_state.rejoin_group(
            m, "what was revoked has stopped, and can be assigned again"
        )
        return False
    if m.leads and not m.led_before:
        yield LeadershipAcquired()
    m.led_before = m.leads
    return True


def _start_assigned(m: HerderState) -> HerderScript[None]:
    yield from _release_work(m, m.running.without(m.assigned.items))
    m.running = m.running.without(m.to_restart)
    m.to_restart.clear()
    yield from herder_state.start_items(m, m.assigned.without(m.running.items))


def sync_config_topic(m: HerderState) -> HerderScript[bool]:
    """Read the config topic to its end; where that takes too long, leave the group and wait.

    Who holds on to a round that it cannot act on holds up everybody. A follower goes on running
    meanwhile: its leader waits longer for it than it tries. But nobody remembers what a leader
    ran, and others run it at once. (Java's leader goes on all the same.)
    """
    if (yield from herder_state.read_config_topic(m)):
        m.tries_left = herder_state.MAX_SYNC_ATTEMPTS
        return True
    if not m.left:
        if m.leads or m.eager or m.settings.rebalance_delay_max_s == 0:
            yield from _revoke_everything(m)
        m.left, m.joined, m.join_asked = True, False, None
        yield LeaveGroup("reading the config topic to its end takes too long")
    yield from _wait_before_retry(m)
    return False


def _wait_before_retry(m: HerderState) -> HerderScript[None]:
    if m.eager:
        yield SleepUntil(m.seen.now_s + m.settings.unsync_backoff_s)
        return
    if m.tries_left > 0:
        wait_s = m.settings.rebalance_delay_max_s / _BACKOFF_FRACTION / m.tries_left
        m.tries_left -= 1
        yield SleepUntil(m.seen.now_s + wait_s)
        return
    m.tries_left = herder_state.MAX_SYNC_ATTEMPTS
    yield WriteLogLine(
        "stopping all work: the config topic could not be read in "
        f"{herder_state.MAX_SYNC_ATTEMPTS} tries"
    )
    yield from _revoke_everything(m)


def _revoke_everything(m: HerderState) -> HerderScript[None]:
    """Stop everything, and say so when joining."""
    yield from _release_work(m, m.running)
    yield RevokeAssignment()
