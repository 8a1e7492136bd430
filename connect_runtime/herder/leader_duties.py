"""Duties of the group's leader.

It deletes stale statuses, fences other writers of the config topic and rotates the session key.
"""

from __future__ import annotations

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.herder import herder_state, session_keys
from connect_runtime.herder.herder_actions import (
    DeleteStatuses,
    FenceConfigWriters,
    WriteLogLine,
    WriteSessionKey,
)
from connect_runtime.herder.herder_events import ActionDone, ActionFailed
from connect_runtime.herder.herder_state import HerderScript, HerderState, SleepUntil
from connect_runtime.storage.cluster_config_state import ClusterConfigState
from connect_runtime.storage.status_records import StatusSubject
from connect_runtime.storage.status_topic import StatusSnapshot

WRITE_RETRY_DELAY_S = 0.25


def assume_leadership(m: HerderState) -> HerderScript[None]:
    """A round made this worker the leader, or left it that."""
    stale = find_stale_statuses(m.seen.config, m.seen.statuses)
    if stale:
        yield DeleteStatuses(stale)
    yield from _fence_config_writers(m)


def find_stale_statuses(
    config: ClusterConfigState, statuses: StatusSnapshot
) -> tuple[StatusSubject, ...]:
    """Statuses of connectors and tasks that are configured no more.

    To be deleted only after a round: until then those who stop them still write UNASSIGNED.
    """
    stale: list[StatusSubject] = []
    for name in sorted({*statuses.by_connector, *statuses.by_task}):
        if not config.contains(name) and name in statuses.by_connector:
            stale.append(name)
        wanted: set[ConnectorTaskId] = set(config.tasks(name))
        stale += [task for task in statuses.tasks(name) if task not in wanted]
    return tuple(stale)


def perform_due_duties(m: HerderState) -> HerderScript[bool]:
    """What is due before anything else; False: later."""
    if m.write_lost:
        if not m.leads:
            m.write_lost = False  # as it should be: another worker leads now
        else:
            yield from _fence_config_writers(m)
            if m.write_lost:
                yield SleepUntil(m.seen.now_s + WRITE_RETRY_DELAY_S)
                return False
    if m.leads and m.signs and compute_key_rotation_time_s(m) <= m.seen.now_s:
        return (yield from _rotate_session_key(m))
    return True


def _fence_config_writers(m: HerderState) -> HerderScript[None]:
    outcome = yield FenceConfigWriters()
    m.write_lost = not isinstance(outcome, ActionDone)
    if isinstance(outcome, ActionFailed):
        yield WriteLogLine(
            f"no right to write to the config topic yet: {outcome.reason}", warns=True
        )


def compute_key_rotation_time_s(m: HerderState) -> float:
    """The monotonic time at which another session key is due."""
    due_ms = session_keys.compute_rotation_time_ms(
        m.seen.config.session_key, m.settings.session_keys
    )
    return m.seen.now_s + (due_ms - m.seen.wall_ms) / 1000


def _rotate_session_key(m: HerderState) -> HerderScript[bool]:
    created_ms = m.seen.wall_ms
    failure = yield from herder_state.write_config(m, WriteSessionKey(created_ms=created_ms))
    if failure is None:
        return True
    yield WriteLogLine(f"no new session key was written: {failure}", warns=True)
    m.can_read = False  # it may have been written all the same: read before trying again
    yield SleepUntil(m.seen.now_s + WRITE_RETRY_DELAY_S)
    return False
