"""The herder of a distributed worker: which work to start and stop, what to write, whom to answer.

It does one thing at a time, as Java's tick thread does: a round of the group, then its office if
it leads, then requests, then restarts, then changed configurations. While a question of it is
outstanding, what is told is only noted. Who drives it carries out instructions in their order and
tells `Answered` for the question that may be the last of them; there is nothing else to know.
"""

from __future__ import annotations

from connect_runtime.core.herder import (
    events,
    instructions,
    leader,
    memory,
    reconfiguration,
    requests,
    rounds,
    service,
    updates,
)

TOO_MANY_REQUESTS = 503


class Herder:
    """Invariants: at most one question is outstanding; nothing is decided by a round after
    another was asked for; after `Close` nothing is said any more."""

    def __init__(self, settings: memory.HerderSettings, seen: events.Seen) -> None:
        self._memory = memory.Memory(settings=settings, seen=seen)
        self._script: memory.Script[bool] | None = None
        self._question: instructions.Question | None = None
        self._sleeps_until_s: float | None = None
        self._forwarded: list[events.TaskConfigsForwarded] = []
        self._stirred = False
        self._closed = False

    @property
    def question(self) -> instructions.Question | None:
        """What is to be answered."""
        return self._question

    @property
    def closed(self) -> bool:
        return self._closed

    def wake_at_s(self) -> float | None:
        """When to tell `TimePassed` at the latest; None while only other events matter."""
        m = self._memory
        if self._question is not None or self._closed or not m.begun:
            return None
        times = [self._sleeps_until_s]
        if m.joined and self._script is None:
            times += [m.queue.next_at_s, m.due_s]
            if m.leads and m.signs:
                times.append(leader.key_due_s(m))
        return min((each for each in times if each is not None), default=None)

    def step(self, event: events.Event, seen: events.Seen) -> list[instructions.Instruction]:
        """Take an event in, say what to do."""
        if self._closed:
            return []
        self._memory.seen = seen
        said: list[instructions.Instruction] = []
        outcome: events.Outcome | None = None
        if isinstance(event, events.Answered):
            assert self._question is not None, event
            self._question, outcome = None, event.outcome
        else:
            self._stirred = True
            if not self._note(event):
                said += self._told(event)
        if self._question is None:
            self._go_on(outcome, said)
        return said

    def _note(self, event: events.Event) -> bool:
        """Remember what the group and the config topic say; False for anybody else."""
        m = self._memory
        match event:
            case events.Begun():
                m.begun, m.config = True, m.seen.config
            case events.ConfigChanged(change):
                updates.note(m, change)
            case events.JoinAsked(stop):
                m.join_asked = stop
            case events.RoundCompleted():
                m.arrived = event
            case events.GroupLost(reason):
                m.lost, m.arrived, m.join_asked = reason, None, None
            case events.ShutdownRequested():
                m.closing = True
            case _:
                return False
        return True

    def _told(self, event: events.Event) -> list[instructions.Instruction]:
        """What the worker, the leader and askers say."""
        match event:
            case events.ConnectorReached():
                return service.reached(self._memory, event)
            case events.ReconfigurationWanted(connector):
                reconfiguration.ask(self._memory, connector)
            case events.TaskConfigsForwarded():
                self._forwarded.append(event)
            case events.Submitted():
                return self._submitted(event)
        return []

    def _submitted(self, event: events.Submitted) -> list[instructions.Instruction]:
        m = self._memory
        reply: requests.Refused
        if m.closing:
            reply = requests.Refused(service.FAILURE, service.CLOSING)
        else:
            if event.ticket is None and isinstance(event.request, requests.RestartConnector):
                m.queue.drop_scheduled_restart(event.request.connector)
            try:
                at_s = m.seen.now_s + event.delay_s
                m.queue.add(event.request, ticket=event.ticket, at_s=at_s)
            except requests.QueueFull as error:
                reply = requests.Refused(TOO_MANY_REQUESTS, f"{error}; try again later")
            else:
                return []
        return [] if event.ticket is None else [instructions.Answer(event.ticket, reply)]

    def _go_on(self, outcome: events.Outcome | None, said: list[instructions.Instruction]) -> None:
        """Run the script until it asks or sleeps; then, if anything stirred, the next one."""
        if not self._awake():
            return
        while self._script is not None or self._stirred:
            if self._script is None:
                self._stirred = False
                self._script = self._tick()
            try:
                next_one = self._script.send(outcome)
            except StopIteration as ended:
                self._script = None
                self._stirred = self._stirred or ended.value
                outcome = None
                continue
            outcome = None
            if isinstance(next_one, memory.Sleep):
                self._sleeps_until_s = next_one.until_s
                if not self._awake():
                    return
                continue
            said.append(next_one)
            if isinstance(next_one, instructions.Close):
                self._script, self._closed = None, True
                return
            if isinstance(next_one, instructions.QUESTIONS):
                self._question = next_one
                return

    def _awake(self) -> bool:
        """A sleep ends when its time has come, or when nothing is worth waiting for any more."""
        if self._sleeps_until_s is None:
            return True
        m = self._memory
        if m.closing or m.lost is not None:
            assert self._script is not None
            self._script.close()
            self._script, self._stirred = None, True
        elif m.seen.now_s < self._sleeps_until_s:
            return False
        self._sleeps_until_s = None
        return True

    def _tick(self) -> memory.Script[bool]:
        """Once round. True: come round again at once."""
        m = self._memory
        if not m.begun and not m.closing:
            return False
        yield from updates.set_levels(m)
        yield from self._heed_group()
        if m.closing:
            yield from self._close()
            return False
        if not m.can_read and not (yield from rounds.catch_up(m)):
            return True
        if m.left:
            yield from memory.rejoin(m, "the config topic can be read again")
        if m.join_asked is not None:
            stop, m.join_asked = m.join_asked, None
            yield from rounds.prepare(m, stop)
        if not m.joined:
            return False
        return (yield from self._tick_joined())

    def _heed_group(self) -> memory.Script[None]:
        m = self._memory
        if m.lost is not None:
            reason, m.lost = m.lost, None
            yield from rounds.lose(m, reason)
        if m.arrived is not None:
            arrived, m.arrived = m.arrived, None
            yield from rounds.accept(m, arrived)

    def _tick_joined(self) -> memory.Script[bool]:
        m = self._memory
        if not (yield from rounds.settle(m)):
            return not m.can_read
        if not (yield from leader.hold_office(m)):
            return True
        yield from self._serve()
        yield from updates.restart(m)
        yield from updates.take_up(m)
        return not m.can_read or (m.write_lost and m.leads)

    def _serve(self) -> memory.Script[None]:
        m = self._memory
        told, self._forwarded = self._forwarded, []
        for event in told:
            yield from reconfiguration.forwarded(m, event)
        while not self._disturbed() and (waiting := m.queue.take_due(m.seen.now_s)) is not None:
            yield from service.serve(m, waiting)

    def _disturbed(self) -> bool:
        """Something more urgent came up than the next request."""
        m = self._memory
        return (
            m.closing
            or m.lost is not None
            or m.join_asked is not None
            or not m.can_read
            or (m.write_lost and m.leads)
        )

    def _close(self) -> memory.Script[None]:
        m = self._memory
        yield from memory.stop(m, m.running)
        yield from service.refuse_all(m)
        m.round, m.joined = None, False
        yield instructions.FlushStatuses()
        yield instructions.Close()

    def check_invariants(self) -> None:
        self._memory.check_invariants()
        assert self._question is None or self._script is not None
        assert self._sleeps_until_s is None or self._script is not None
