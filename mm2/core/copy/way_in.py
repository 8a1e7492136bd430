"""The way into copying and back into it: a partition waits, is taken, stands still, or is given up.

Knows nothing of batches. `taken` gets what a successful take found; whoever copies comes back here
by `take`, `react` and `failed` once nothing is in flight any more.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from mm2.core.copy import (
    boundary,
    fence,
    instructions,
    map_writer,
    outcomes,
    refusals,
    script_runner,
    standing,
    stops,
    take,
)

Instructions = list[instructions.Instruction]
OnTaken = Callable[[outcomes.Taken, map_writer.MapWriter, float], Instructions]
"""Gets the time (monotonic seconds) last; says what to do next."""

Phase = standing.Phase

FENCED = "fenced; it is taken again once the workers' group says that it is ours"
_OURS_AGAIN_S = 10.0
"""Brokers are that late with news at most: so long our topic must be seen again to be believed."""


class WayIn:
    """Invariant: the phase is TAKING exactly while a script of this object runs."""

    def __init__(
        self,
        context: outcomes.Context,
        *,
        state: standing.Standing,
        runner: script_runner.ScriptRunner,
        random: Random,
        taken: OnTaken,
    ) -> None:
        self._context = context
        self._standing = state
        self._runner = runner
        self._random = random
        self._taken = taken

    def tick(self, now_s: float, *, paused: bool) -> Instructions:
        """Take what has waited long enough; end what is to end."""
        if not self._standing.idle:
            return []
        if self._standing.closing:
            self._standing.close()
            return []
        if now_s >= self._standing.wake_at_s and not paused:
            return self.take(now_s)
        return []

    def take(self, now_s: float) -> Instructions:
        if self._over(now_s):
            return []
        self._standing.take()
        script = take.take_and_anchor(self._context, now_s)
        return self._runner.start(script, self._after_take, now_s=now_s)

    def _over(self, now_s: float) -> bool:
        """Is there nothing to go on with: asked to end, or another topic has this name now?"""
        if self._standing.closing:
            self._standing.close()
        elif self._standing.recreated is not None:
            self._standing.stand_still(self._standing.recreated, now_s)
        else:
            return False
        return True

    def _after_take(self, outcome: object, now_s: float) -> Instructions:
        match outcome:
            case (outcomes.Taken() as taken, map_writer.MapWriter() as written):
                return self._taken(taken, written, now_s)
            case _:
                return self.failed(outcome, now_s)

    def wait(self, reason: str, now_s: float, *, lasting: stops.Stop | None = None) -> Instructions:
        """Take again after a backoff; what goes on for too many tries is the stop `lasting`."""
        if lasting is not None and self._standing.lasts(lasting, now_s):
            self._standing.stand_still(lasting, now_s)
            return []
        self._standing.wait(reason, now_s, random=self._random)
        return [instructions.RefreshTarget()]

    def check_fence(self, than: instructions.ProducerIdentity, now_s: float) -> Instructions:
        """Somebody got a newer epoch than `than`, which was ours: was it another owner?

        A group hands the partition to another worker now and then: whoever it says owns the
        partition acquires it, and is the only one who may. Only if this worker is fenced again and
        again, and owns the partition each time, another group runs the flow, too.
        """
        if self._over(now_s):
            return []
        if self._context.where.in_group and not self._standing.lasts(self._fenced, now_s):
            return self.wait(FENCED, now_s)
        self._standing.ask_by_whom()
        script = boundary.who_fenced_us(self._context, than=than)
        return self._runner.start(script, self._after_check, now_s=now_s)

    def _after_check(self, by_another: object, now_s: float) -> Instructions:
        if isinstance(by_another, stops.Stop):
            return self.failed(by_another, now_s)
        if not by_another:
            return self.wait("fenced, and no other owner has appeared", now_s)
        if self._context.where.in_group:
            self._standing.stand_still(self._fenced, now_s)
        else:
            self._standing.fence_off(self._fenced)
        return []

    @property
    def _fenced(self) -> stops.Stop:
        return stops.fenced(self._context.where)

    def failed(self, outcome: object, now_s: float) -> Instructions:
        """A script, of a take or at a boundary, came to something else than was wished."""
        match outcome:
            case outcomes.BeginAgain():
                return self.wait(outcome.reason, now_s, lasting=outcome.lasting)
            case outcomes.Fenced():
                return self.check_fence(outcome.than, now_s)
            case stops.Stop():
                self._standing.stand_still(outcome, now_s)
                return []
            case fence.NewerOwner() | fence.Refusal() | fence.Disturbed():
                return self.failed(outcomes.not_fenced(self._context.where, outcome), now_s)
        raise AssertionError(outcome)

    def react(
        self,
        reaction: refusals.Reaction,
        producer: instructions.ProducerIdentity,
        *,
        now_s: float,
    ) -> Instructions:
        """Nothing is in flight any more: do what was decided when the copying broke off."""
        match reaction.then:
            case refusals.Then.TAKE:
                return self.take(now_s)
            case refusals.Then.BACK_OFF:
                return self.wait(reaction.reason, now_s, lasting=reaction.stop)
            case refusals.Then.CHECK_FENCE:
                return self.check_fence(producer, now_s)
            case refusals.Then.STOP:
                assert reaction.stop is not None
                passed = self._standing.recreated is None
                if passed and reaction.stop.cause is stops.Cause.RECREATED:
                    return self._ours_again(now_s)
                self._standing.stand_still(reaction.stop, now_s)
                return []

    # What happens meanwhile

    def topic_seen(self, topic_id: bytes, now_s: float, *, on_target: bool) -> Instructions:
        """While one side's topic is another one nothing is taken, whatever else happens first.

        A broker that is late with news may tell of the topic before ours: it is over when that
        side shows ours again.
        """
        where = self._context.where
        ours = where.target_topic_id if on_target else where.source_topic_id
        stop = stops.recreated(where, on_target=on_target, was=ours, now=topic_id)
        others = self._standing.others
        if stop is not None and on_target not in others:
            others[on_target] = stop
            self._recreated(stop, now_s)
        elif topic_id == ours and on_target in others:
            told = others.pop(on_target)
            if self._standing.phase is Phase.STOPPED and self._standing.stop is told:
                return self._ours_again(now_s)
        return []

    def _recreated(self, stop: stops.Stop, now_s: float) -> None:
        if self._standing.phase is Phase.TAKING:
            self._runner.abandon()
            self._over(now_s)
        elif self._standing.idle:
            self._standing.stand_still(stop, now_s)

    def _ours_again(self, now_s: float) -> Instructions:
        if self._standing.recreated is not None:  # on the other side
            self._standing.stand_still(self._standing.recreated, now_s)
            return []
        found = self.wait("a broker told of another topic, and of ours again since", now_s)
        self._standing.wake_at_s = now_s + _OURS_AGAIN_S
        self._standing.stop = None
        return found

    def close(self) -> None:
        """Asked to end while nothing is copied; a boundary is waited for."""
        if self._standing.phase is Phase.TAKING:
            self._runner.abandon()
            self._standing.close()
        elif self._standing.idle:
            self._standing.close()
