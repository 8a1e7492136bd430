"""What only the leader does unasked: tidy statuses, own the config topic, renew the session key."""

from __future__ import annotations

from connect_runtime.base import ids
from connect_runtime.core.herder import events, instructions, memory, session_keys
from connect_runtime.core.state import cluster_config, status_log, status_records

CLAIM_BACKOFF_S = 0.25


def take_office(m: memory.Memory) -> memory.Script[None]:
    """A round made this worker the leader, or left it that."""
    stale = stale_statuses(m.seen.config, m.seen.statuses)
    if stale:
        yield instructions.ForgetStatuses(stale)
    yield from _claim(m)


def stale_statuses(
    config: cluster_config.ClusterConfig, statuses: status_log.Statuses
) -> tuple[status_records.Subject, ...]:
    """Statuses of connectors and tasks that are configured no more.

    To be deleted only after a round: until then those who stop them still write UNASSIGNED.
    """
    stale: list[status_records.Subject] = []
    for name in sorted({*statuses.by_connector, *statuses.by_task}):
        if not config.contains(name) and name in statuses.by_connector:
            stale.append(name)
        wanted: set[ids.ConnectorTaskId] = set(config.tasks(name))
        stale += [task for task in statuses.tasks(name) if task not in wanted]
    return tuple(stale)


def hold_office(m: memory.Memory) -> memory.Script[bool]:
    """What is due before anything else; False: later."""
    if m.write_lost:
        if not m.leads:
            m.write_lost = False  # as it should be: another worker leads now
        else:
            yield from _claim(m)
            if m.write_lost:
                yield memory.Sleep(m.seen.now_s + CLAIM_BACKOFF_S)
                return False
    if m.leads and m.signs and key_due_s(m) <= m.seen.now_s:
        return (yield from _renew_key(m))
    return True


def _claim(m: memory.Memory) -> memory.Script[None]:
    outcome = yield instructions.ClaimWrites()
    m.write_lost = not isinstance(outcome, events.Done)
    if isinstance(outcome, events.Failed):
        yield instructions.Note(
            f"no right to write to the config topic yet: {outcome.reason}", warns=True
        )


def key_due_s(m: memory.Memory) -> float:
    """The monotonic time at which another session key is due."""
    due_ms = session_keys.due_at_ms(m.seen.config.session_key, m.settings.session_keys)
    return m.seen.now_s + (due_ms - m.seen.wall_ms) / 1000


def _renew_key(m: memory.Memory) -> memory.Script[bool]:
    created_ms = m.seen.wall_ms
    failure = yield from memory.write(m, instructions.WriteNewSessionKey(created_ms=created_ms))
    if failure is None:
        return True
    yield instructions.Note(f"no new session key was written: {failure}", warns=True)
    m.can_read = False  # it may have been written all the same: read before trying again
    yield memory.Sleep(m.seen.now_s + CLAIM_BACKOFF_S)
    return False
