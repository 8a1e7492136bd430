"""Does a move step by step. Each step is done, read back and noted before the next begins, and may
be done again: after a crash it goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors, ids
from mm2.app.failover import fencing, hooks, journal_file, planning, show, stopping
from mm2.app.looks import mirrors, sides
from mm2.core.configs import dedicated
from mm2.core.failover import agreement, group_moves, journal, plan, steps
from mm2.core.offsets import checkpoints, group_sync
from mm2.pipeline import single_questions

LOOK_S = 60.0
WRITE_S = 60.0
TURN_S = 1.0
STOPPED = tuple(name for name in dedicated.CONNECTORS if "Heartbeat" not in name)
"""What a move stops: copying, and checkpoints, which would set groups by what they do on the
cluster that was left. Heartbeats lose nothing."""

Detail = Mapping[str, Any]
Step = steps.Step


class RefusedError(errors.FatalError):
    """The plan says no-go; nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """`questions` makes connections of our own to the target; `pause` waits so many seconds;
    `tell` says a line to the operator. `settle_s`: how long both ends have to agree. `wait_s`: how
    long is waited for what others do."""

    both: sides.Sides
    config_topic: str
    questions: Callable[[], single_questions.SingleQuestions]
    clock: base_clock.Clock
    pause: Callable[[float], object]
    tell: Callable[[str], object]
    groups: Collection[str] = ()
    hooks: hooks.Hooks = field(default_factory=dict)
    settle_s: float = 60.0
    wait_s: float = 600.0


class Mover:
    """One move; `run` does what is left of it."""

    def __init__(self, file: journal_file.JournalFile, tools: Tools) -> None:
        assert file.found.begun is not None, file.path
        self._file = file
        self._tools = tools
        self._begun: journal.Begun = file.found.begun
        self._wanted = self._begun.wanted
        self._do: Mapping[Step, Callable[[], Detail]] = {
            Step.RECORD: self._record,
            Step.AGREE: self._agree,
            Step.IDLE: self._idle,
            Step.STOP_FLOW: self._stop_flow,
            Step.FENCE: self._fence,
            Step.LOOK_AGAIN: self._look_again,
            Step.MOVE_GROUPS: self._move_groups,
            Step.VERIFY: self._verify,
            Step.REPORT: self._report,
        }

    def run(self) -> None:
        """Raises `ConnectError` where a step fails; it is done again next time."""
        tools, found = self._tools, self._file.found
        while (step := found.next_step) is not None:
            tools.tell(f"{step.value}: {steps.text(step, self._wanted, self._begun.flow)}")
            self._file.append(journal.started(step, at_ms=tools.clock.wall_ms()))
            try:
                detail = self._hook(step) if step in steps.HOOKS else self._do[step]()
            except errors.ConnectError as error:
                self._file.append(journal.failed(step, str(error), at_ms=tools.clock.wall_ms()))
                raise
            self._file.append(journal.done(step, detail, at_ms=tools.clock.wall_ms()))

    def _plan(self, tails: Mapping[ids.TopicPartition, int] | None = None) -> plan.Plan:
        tools = self._tools
        return planning.make(
            self._wanted,
            tools.both,
            groups=tools.groups,
            tails=tails,
            clock=tools.clock,
            timeout_s=LOOK_S,
        )

    def _hook(self, step: Step) -> Detail:
        hook = self._tools.hooks.get(step.value)
        if hook is None:
            self._tools.tell(f"{step.value}: no hook is given: do it now")
            return {"by": "operator"}
        return {"output": hooks.run(hook, step, wanted=self._wanted, flow=self._begun.flow)}

    def _record(self) -> Detail:
        found = self._plan()
        if found.verdict is plan.Verdict.NO_GO:
            raise RefusedError(f"no-go: {_reasons(found)}. Nothing was done")
        return {"plan": show.as_json(found, tuple(self._begun.hooks), {})}

    def _agree(self) -> Detail:
        tools = self._tools
        seen_before = agreement.Agreement(settle_s=tools.settle_s)

        def agrees() -> bool:
            found = mirrors.look(tools.both, clock=tools.clock, timeout_s=LOOK_S)
            return seen_before.look(found.mirrored, tools.clock.now_s())

        self._await(agrees, lambda: f"both ends do not agree: {seen_before.why}")
        return {"ends": {str(each): end for each, end in seen_before.ends.items()}}

    def _idle(self) -> Detail:
        names = self._group_names()
        busy: list[str] = []

        def idle() -> bool:
            states = self._tools.both.source.groups.states(names, LOOK_S)
            failure = states.first_failure()
            if failure is not None:
                raise failure
            active = group_sync.GroupState.ACTIVE
            busy[:] = [name for name, state in states.done.items() if state is active]
            return not busy

        self._await(idle, lambda: f"groups have members still: {', '.join(busy)}")
        return {"groups": names}

    def _group_names(self) -> list[str]:
        recorded = self._file.found.details[Step.RECORD]["plan"]["groups"]
        return [each["group"] for each in recorded]

    def _await(self, done: Callable[[], bool], why: Callable[[], str]) -> None:
        tools = self._tools
        end = base_deadline.Deadline.after(tools.wait_s, now_s=tools.clock.now_s())
        while not done():
            if end.passed(tools.clock.now_s()):
                raise errors.RetriableError(f"after {tools.wait_s:g} s {why()}")
            tools.pause(TURN_S)

    def _stop_flow(self) -> Detail:
        tools = self._tools
        stopped = stopping.stop(
            tools.both.target,
            tools.config_topic,
            STOPPED,
            clock=tools.clock,
            timeout_s=WRITE_S,
        )
        return {"connectors": stopped}

    def _fence(self) -> Detail:
        """Once more where somebody takes a partition meanwhile: he has not read yet that the flow
        is stopped."""
        tools, flow = self._tools, self._tools.both.flow
        end = base_deadline.Deadline.after(tools.wait_s, now_s=tools.clock.now_s())
        while True:
            known = mirrors.read_map(tools.both.target, flow.source, LOOK_S)
            with tools.questions() as questions:
                fenced = fencing.fence(flow, known, questions, clock=tools.clock)
            tools.pause(TURN_S)
            known = mirrors.read_map(tools.both.target, flow.source, LOOK_S)
            again = [each.partition for each in fenced if fencing.taken_since(known, each)]
            if not again:
                break
            if end.passed(tools.clock.now_s()):
                raise errors.RetriableError(
                    f"somebody copies {again[0]} still, though the flow is stopped"
                )
        return {
            "partitions": [
                {
                    "topic": each.partition.topic,
                    "partition": each.partition.partition,
                    "marker": each.marker,
                    "epoch": each.epoch,
                    "tail": each.tail,
                }
                for each in fenced
            ]
        }

    def _look_again(self) -> Detail:
        fenced = self._file.found.details[Step.FENCE]["partitions"]
        tails = {
            ids.TopicPartition(each["topic"], each["partition"]): each["tail"] for each in fenced
        }
        found = self._plan(tails)
        if found.verdict is plan.Verdict.NO_GO:
            raise errors.RetriableError(
                f"no-go: {_reasons(found)}. The flow is stopped; no group was moved"
            )
        return {
            "plan": show.as_json(found, tuple(self._begun.hooks), {}),
            "groups": [_group_detail(each) for each in found.groups if each.barred is None],
        }

    def _finals(self) -> dict[str, dict[ids.TopicPartition, checkpoints.OffsetAndMetadata]]:
        """By group: where it has to stand there."""
        groups = self._file.found.details[Step.LOOK_AGAIN]["groups"]
        return {
            each["group"]: {
                ids.TopicPartition(at["topic"], at["partition"]): checkpoints.OffsetAndMetadata(
                    offset=at["offset"], metadata=at["metadata"]
                )
                for at in each["positions"]
            }
            for each in groups
        }

    def _move_groups(self) -> Detail:
        """What stands already is not written again: it may be that we died behind the write."""
        groups = self._tools.both.target.groups
        finals = self._finals()
        standing = groups.positions(list(finals), LOOK_S)
        failure = standing.first_failure()
        if failure is not None:
            raise failure
        writes = {
            group: {
                place: at
                for place, at in wanted.items()
                if _offset(standing.done[group].get(place)) != at.offset
            }
            for group, wanted in finals.items()
        }
        writes = {group: wanted for group, wanted in writes.items() if wanted}
        written = groups.write(writes, WRITE_S)
        refused = [f"group {group}: {error}" for group, error in sorted(written.failed.items())] + [
            f"group {group}, {place}: {error}"
            for group, partitions in sorted(written.done.items())
            for place, error in partitions.items()
        ]
        if refused:
            raise errors.RetriableError(f"not all groups were moved: {'; '.join(refused)}")
        return {"groups": sorted(writes), "positions": sum(map(len, writes.values()))}

    def _verify(self) -> Detail:
        finals = self._finals()
        found = self._tools.both.target.groups.positions(list(finals), LOOK_S)
        failure = found.first_failure()
        if failure is not None:
            raise failure
        wrong = [
            f"group {group}, {place}: {_offset(found.done[group].get(place))}, not {at.offset}"
            for group, wanted in finals.items()
            for place, at in wanted.items()
            if _offset(found.done[group].get(place)) != at.offset
        ]
        if wrong:
            raise errors.FatalError(
                f"groups stand elsewhere than they were moved to: {'; '.join(wrong)}. Does "
                "somebody consume there already?"
            )
        return {"positions": sum(map(len, finals.values()))}

    def _report(self) -> Detail:
        found = self._file.found
        final = found.details[Step.LOOK_AGAIN]["plan"]
        now_ms = self._tools.clock.wall_ms()
        return {
            "took_ms": now_ms - found.begun_at_ms,
            "lag_records": final["lag_records"],
            "lag_ms": final["lag_ms"],
            "read_again_max": final["read_again_max"],
            "groups": len(final["groups"]),
        }


def _reasons(found: plan.Plan) -> str:
    return "; ".join(each.text for each in found.findings if each.weight is plan.Weight.FORBIDS)


def _group_detail(move: group_moves.GroupMove) -> Detail:
    metadata = {each.mirror: each.metadata for each in move.partitions}
    return {
        "group": move.group,
        "positions": [
            {
                "topic": place.topic,
                "partition": place.partition,
                "offset": offset,
                "metadata": metadata[place],
            }
            for place, offset in sorted(move.expected.items())
        ],
    }


def _offset(position: checkpoints.OffsetAndMetadata | None) -> int | None:
    return None if position is None else position.offset
