"""Rounds of the group: taking one up, keeping in step with it, giving its work back.

Sequence and reasons are those of Java's DistributedHerder (handleRebalanceCompleted, its
RebalanceListener, backoff). Other than there, a round that waits for a lost worker is not gone
through again at every tick: only when its delay has passed. What that avoids is a round for every
record that anybody writes to the config topic meanwhile.
"""

from __future__ import annotations

import dataclasses

from connect_runtime.core.assignment import work
from connect_runtime.core.herder import events, instructions, leader, memory

_FRACTION = 10
"""The tries to get into step wait a tenth of the rebalance delay, each over the tries left."""


def prepare(m: memory.Memory, stop: work.Work) -> memory.Script[None]:
    """The group wants to meet: stop what may not run meanwhile."""
    m.joined = False
    m.left = False
    yield from _give_back(m, stop)
    yield instructions.Prepared()


def _give_back(m: memory.Memory, stop: work.Work) -> memory.Script[None]:
    """Others may run this next: it must have stopped, and said so, before they do."""
    if not stop:
        return
    yield from memory.stop(m, stop)
    if m.settings.topics_tracked:
        names = {*stop.connectors, *(task.connector for task in stop.tasks)}
        for name in sorted(names):
            if not m.seen.config.contains(name):
                yield instructions.ForgetTopics(name)
    yield instructions.FlushStatuses()


def accept(m: memory.Memory, arrived: events.RoundCompleted) -> memory.Script[None]:
    """A round is complete: give back what is revoked, and take up what it means to lead."""
    lost = arrived.assignment.delay_ms > 0 or arrived.assignment.failed
    yield instructions.Note(_described(arrived), warns=lost)
    yield from _give_back(m, arrived.stop)
    m.round, m.joined, m.resolved = arrived, True, False
    delay_ms = arrived.assignment.delay_ms
    m.due_s = m.seen.now_s + delay_ms / 1000 if delay_ms > 0 else None
    if arrived.leads:
        yield from leader.take_office(m)


def _described(arrived: events.RoundCompleted) -> str:
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


def lose(m: memory.Memory, reason: str) -> memory.Script[None]:
    """Nobody coordinates the group any more; nothing may run until somebody does."""
    yield instructions.Note(f"stopping all connectors and tasks: {reason}", warns=True)
    yield from _give_back(m, m.running)
    m.round, m.joined, m.resolved, m.due_s = None, False, False, None


def settle(m: memory.Memory) -> memory.Script[bool]:
    """Bring this worker into step with the round, and start its work.

    False: another round was asked for, or this worker left the group.
    """
    if m.due_s is not None and m.seen.now_s >= m.due_s:
        m.due_s = None
        yield from memory.rejoin(m, "the delay of the last round has passed")
        return False
    if m.resolved:
        return True
    assert m.round is not None
    assignment = m.round.assignment
    behind = m.config.offset < assignment.config_offset
    if (behind or (assignment.failed and m.round.leads)) and not (yield from catch_up(m)):
        return False
    if assignment.failed:
        yield from memory.rejoin(m, "the round failed: somebody had read more configurations")
        return False
    if m.config.offset != assignment.config_offset:
        yield from memory.rejoin(
            m,
            f"the round was made at config offset {assignment.config_offset}, and this worker has"
            f" read to {m.config.offset}",
        )
        return False
    yield from _start_work(m)
    m.resolved = True
    if assignment.revoked:
        m.round = dataclasses.replace(
            m.round, assignment=dataclasses.replace(assignment, revoked=work.NO_WORK)
        )
        yield from memory.rejoin(m, "what was revoked has stopped, and can be assigned again")
        return False
    if m.leads and not m.led_before:
        yield instructions.TellOfLeading()
    m.led_before = m.leads
    return True


def _start_work(m: memory.Memory) -> memory.Script[None]:
    yield from _give_back(m, m.running.without(m.assigned.items))
    m.running = m.running.without(m.to_restart)
    m.to_restart.clear()
    yield from memory.start(m, m.assigned.without(m.running.items))


def catch_up(m: memory.Memory) -> memory.Script[bool]:
    """Read the config topic to its end; where that takes too long, leave the group and wait.

    Who holds on to a round that it cannot act on holds up everybody. A follower goes on running
    meanwhile: its leader waits longer for it than it tries. But nobody remembers what a leader
    ran, and others run it at once. (Java's leader goes on all the same.)
    """
    if (yield from memory.read_configs(m)):
        m.tries_left = memory.SYNC_TRIES
        return True
    if not m.left:
        if m.leads or m.eager or m.settings.rebalance_delay_max_s == 0:
            yield from _give_up(m)
        m.left, m.joined, m.join_asked = True, False, None
        yield instructions.Leave("reading the config topic to its end takes too long")
    yield from _back_off(m)
    return False


def _back_off(m: memory.Memory) -> memory.Script[None]:
    if m.eager:
        yield memory.Sleep(m.seen.now_s + m.settings.unsync_backoff_s)
        return
    if m.tries_left > 0:
        wait_s = m.settings.rebalance_delay_max_s / _FRACTION / m.tries_left
        m.tries_left -= 1
        yield memory.Sleep(m.seen.now_s + wait_s)
        return
    m.tries_left = memory.SYNC_TRIES
    yield instructions.Note(
        f"stopping all work: the config topic could not be read in {memory.SYNC_TRIES} tries"
    )
    yield from _give_up(m)


def _give_up(m: memory.Memory) -> memory.Script[None]:
    """Stop everything, and say so when joining."""
    yield from _give_back(m, m.running)
    yield instructions.GiveUpWork()
