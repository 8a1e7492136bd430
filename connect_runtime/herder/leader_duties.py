"""Performs the leader's duties: deletes stale statuses, fences the config topic producers of former
leaders, and rotates the session key."""

from __future__ import annotations

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.herder import herder_state, session_keys
from connect_runtime.herder.herder_actions import (
    DeleteStatuses,
    FenceConfigWriters,
    WriteLogLine,
    WriteSessionKey,
)
from connect_runtime.herder.herder_events import ActionFailed, ActionSucceeded
from connect_runtime.herder.herder_state import HerderProcedure, HerderState, SleepUntil
from connect_runtime.storage.cluster_config_state import ClusterConfigState
from connect_runtime.storage.status_records import StatusSubject
from connect_runtime.storage.status_topic import StatusSnapshot

WRITE_RETRY_DELAY_S = 0.25


def assume_leadership(herder: HerderState) -> HerderProcedure[None]:
    """Delete stale statuses and fence other writers, after a rebalance that made this worker the
    leader."""
    stale = find_stale_statuses(herder.snapshot.config, herder.snapshot.statuses)
    if stale:
        yield DeleteStatuses(stale)
    yield from _fence_config_writers(herder)


def find_stale_statuses(
    config: ClusterConfigState, statuses: StatusSnapshot
) -> tuple[StatusSubject, ...]:
    """Return the status subjects of connectors and tasks that no longer exist.

    Delete these statuses only after a rebalance. Until a rebalance has completed, other workers may
    still be stopping the connectors and tasks and writing the status UNASSIGNED for them.
    """
    stale: list[StatusSubject] = []
    for name in sorted({*statuses.by_connector, *statuses.by_task}):
        if not config.has_connector(name) and name in statuses.by_connector:
            stale.append(name)
        configured: set[ConnectorTaskId] = set(config.tasks(name))
        stale += [task for task in statuses.tasks(name) if task not in configured]
    return tuple(stale)


def perform_due_leader_duties(herder: HerderState) -> HerderProcedure[bool]:
    """Perform the leader's duties that are due. Return False if a duty failed and will be
    retried later."""
    if herder.lost_write_privilege:
        if not herder.is_leader:
            herder.lost_write_privilege = False  # expected: another worker is the leader now
        else:
            yield from _fence_config_writers(herder)
            if herder.lost_write_privilege:
                yield SleepUntil(herder.snapshot.now_s + WRITE_RETRY_DELAY_S)
                return False
    if (
        herder.is_leader
        and herder.signs_requests
        and compute_key_rotation_time_s(herder) <= herder.snapshot.now_s
    ):
        return (yield from _rotate_session_key(herder))
    return True


def _fence_config_writers(herder: HerderState) -> HerderProcedure[None]:
    outcome = yield FenceConfigWriters()
    herder.lost_write_privilege = not isinstance(outcome, ActionSucceeded)
    if isinstance(outcome, ActionFailed):
        yield WriteLogLine(
            f"failed to acquire write access to the config topic, retrying: {outcome.reason}",
            is_warning=True,
        )


def compute_key_rotation_time_s(herder: HerderState) -> float:
    """Return the monotonic time at which the session key must be rotated."""
    due_ms = session_keys.compute_rotation_time_ms(
        herder.snapshot.config.session_key, herder.settings.session_keys
    )
    return herder.snapshot.now_s + (due_ms - herder.snapshot.wall_ms) / 1000


def _rotate_session_key(herder: HerderState) -> HerderProcedure[bool]:
    created_ms = herder.snapshot.wall_ms
    failure = yield from herder_state.write_to_config_topic(
        herder, WriteSessionKey(created_ms=created_ms)
    )
    if failure is None:
        return True
    yield WriteLogLine(f"failed to write a new session key: {failure}", is_warning=True)
    herder.is_config_topic_readable = False  # the write may have succeeded: read before retrying
    yield SleepUntil(herder.snapshot.now_s + WRITE_RETRY_DELAY_S)
    return False
