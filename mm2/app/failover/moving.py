"""Does a move step by step. Each step is done, read back and noted before the next begins, and may
be done again: after a crash it goes on where it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors, ids
from mm2.app.failover import details, fencing, going_on, hooks, journal_file, planning, show
from mm2.app.looks import mirrors, sides
from mm2.core.failover import agreement, journal, plan, seen, steps, tails, verdicts
from mm2.core.offsets import checkpoints, group_sync, offset_map

WRITE_S = 60.0
TURN_S = 1.0
GIVE_UP_S = 20.0
"""So long is waited for tasks of a stopped flow to say that they have ended: who was killed says
nothing, and is fenced all the same."""
NO_CONNECTORS = "no-connectors"

Detail = Mapping[str, Any]
Step = steps.Step


class RefusedError(errors.FatalError):
    """The plan says no-go; nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a move is done with.

    `stop` stops the flow durably, and says which of its connectors there are; `running` says which
    of its tasks still run, as far as somebody lives to say it; `fence` fences these partitions;
    `export` writes records to a file, for the move of this name, and says how many. `pause` waits
    so many seconds; `tell` says a line to the operator. `settle_s`: how long both ends have to
    agree. `wait_s`: how long is waited for what others do.
    """

    both: sides.TwoSides
    planner: planning.Planner
    stop: Callable[[], Sequence[str]]
    running: Callable[[], Sequence[str]]
    fence: Callable[[offset_map.OffsetMap, Collection[ids.TopicPartition]], list[fencing.Fenced]]
    export: Callable[[pathlib.Path, Collection[tails.Tail], str], int]
    clock: base_clock.Clock
    pause: Callable[[float], object]
    tell: Callable[[str], object]
    hooks: hooks.Hooks = field(default_factory=dict)
    settle_s: float = 60.0
    wait_s: float = 600.0


class Mover:
    """One move; `run` does what is left of it."""

    def __init__(
        self,
        file: journal_file.JournalFile,
        tools: Tools,
        *,
        planned: plan.Plan | None = None,
    ) -> None:
        """`planned`: the plan, where it was made just now."""
        assert file.found.begun is not None, file.path
        self._planned = planned
        self._file = file
        self._tools = tools
        self._begun: journal.Begun = file.found.begun
        self._wanted = self._begun.wanted
        self._do: Mapping[Step, Callable[[], Detail]] = {
            Step.RECORD: self._record,
            Step.EXPORT: self._export,
            Step.IDLE: self._idle,
            Step.AGREE: self._agree,
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
        if Step.STOP_FLOW in found.details and found.next_step is not None:
            self._close_again()
        while (step := found.next_step) is not None:
            tools.tell(f"{step.value}: {steps.text(step, self._wanted, self._begun.flow)}")
            self._note(journal.started(step, at_ms=tools.clock.wall_ms()))
            try:
                detail = self._hook(step) if step in steps.HOOKS else self._do[step]()
            except errors.ConnectError as error:
                self._note(journal.failed(step, str(error), at_ms=tools.clock.wall_ms()))
                raise
            self._note(journal.done(step, detail, at_ms=tools.clock.wall_ms()))

    def _note(self, line: str) -> None:
        self._file.append(line)

    def _close_again(self) -> None:
        """Who goes on cannot know what was done meanwhile, and it may be hours. What was taken for
        final is looked at once more: fences, ends, members and positions."""
        found, clock = self._file.found, self._tools.clock
        self._tools.tell(going_on.told(found, now_ms=clock.wall_ms()))
        self._stop_flow()
        if Step.LOOK_AGAIN not in found.details or Step.MOVE_GROUPS in found.details:
            return
        if not found.moved:
            self._note(journal.voided(Step.LOOK_AGAIN, at_ms=clock.wall_ms()))
            return
        known = self._known()
        why = going_on.why_changed(
            found,
            known=known,
            to_fence=self._to_fence(known),
            mirrored=self._mirrors().mirrored if self._wanted.planned else (),
        )
        if why:
            raise errors.FatalError(
                f"{why} since the final positions were taken. {', '.join(sorted(found.moved))} "
                "were moved by them, the other groups were not: begin a new move for those, with "
                "--group; the flow is stopped"
            )

    def _hook(self, step: Step) -> Detail:
        hook = self._tools.hooks.get(step.value)
        if hook is None:
            self._tools.tell(f"{step.value}: no hook is given: do it now")
            return {"by": "operator"}
        return {"output": hooks.run(hook, step, wanted=self._wanted, flow=self._begun.flow)}

    def _record(self) -> Detail:
        found = self._planned or self._tools.planner.make(self._wanted)
        if found.verdict is verdicts.Verdict.NO_GO:
            raise RefusedError(f"no-go: {reasons(found)}. Nothing was done")
        return {"plan": show.as_json(found, tuple(self._begun.hooks), {})}

    def _export(self) -> Detail:
        """Before anything is touched; what cannot be counted cannot be exported."""
        _, left = self._tools.planner.look(self._wanted)
        unknown = [f"{place}" for place, tail in sorted(left.items()) if tail.stretches is None]
        if unknown:
            raise errors.FatalError(
                f"{', '.join(unknown)}: more records than can be counted never left "
                f"{self._wanted.destination}; copy them by other means, or do without --export"
            )
        path = pathlib.Path(self._wanted.export)
        ordered = [tail for _, tail in sorted(left.items())]
        move = f"{self._begun.flow} {self._file.found.begun_at_ms}"
        return {"file": self._wanted.export, "records": self._tools.export(path, ordered, move)}

    def _idle(self) -> Detail:
        names = details.groups_of_plan(self._file.found.details[Step.RECORD])
        busy: list[str] = []

        def idle() -> bool:
            timeout_s = self._tools.planner.timeout_s
            states = self._tools.both.source.groups.states(names, timeout_s)
            failure = states.first_failure()
            if failure is not None:
                raise failure
            active = group_sync.GroupState.ACTIVE
            busy[:] = [name for name, state in states.done.items() if state is active]
            return not busy

        self._await(idle, lambda: f"groups have members still: {', '.join(busy)}")
        return {"groups": names}

    def _agree(self) -> Detail:
        """The map is read as it grows, and not each time anew."""
        tools = self._tools
        both, timeout_s = tools.both, tools.planner.timeout_s
        seen_before = agreement.Agreement(settle_s=tools.settle_s)
        with contextlib.closing(both.target.map_reader(both.flow.source)) as reader:

            def agrees() -> bool:
                known = reader.read(timeout_s)
                found = mirrors.look(both, clock=tools.clock, timeout_s=timeout_s, known=known)
                return seen_before.look(found.mirrored, tools.clock.now_s())

            self._await(agrees, lambda: f"both ends do not agree: {seen_before.why}")
        return {"ends": details.by_partition(seen_before.ends)}

    def _await(
        self, done: Callable[[], bool], why: Callable[[], str], *, most_s: float | None = None
    ) -> None:
        """What fails and may heal is not done yet."""
        tools = self._tools
        wait_s = tools.wait_s if most_s is None else min(most_s, tools.wait_s)
        end = base_deadline.Deadline.after(wait_s, now_s=tools.clock.now_s())
        failure: errors.RetriableError | None = None
        while True:
            try:
                if done():
                    return
                failure = None
            except errors.RetriableError as error:
                failure = error
            if end.passed(tools.clock.now_s()):
                said = why() if failure is None else str(failure)
                raise errors.RetriableError(f"after {wait_s:g} s {said}")
            tools.pause(TURN_S)

    def _stop_flow(self) -> Detail:
        """Who takes part in the flow reads that it is stopped, ends its tasks and says so."""
        stopped = list(self._tools.stop())
        if not stopped and NO_CONNECTORS not in self._wanted.accepted:
            raise errors.FatalError(
                f"nothing is known of connectors of {self._begun.flow} on "
                f"{self._wanted.destination}, so nothing can be stopped durably: is this the file "
                f"that it runs with? Stop it by hand and --accept {NO_CONNECTORS}"
            )
        left: list[str] = []

        def ended() -> bool:
            left[:] = self._tools.running()
            return not left

        if stopped:
            with contextlib.suppress(errors.RetriableError):  # they are fenced all the same
                self._await(ended, lambda: f"{left} still run", most_s=GIVE_UP_S)
        return {"connectors": stopped, "still_running": list(left)}

    def _fence(self) -> Detail:
        return {"partitions": [details.of_fenced(each) for each in self._fenced()]}

    def _fenced(self) -> list[fencing.Fenced]:
        """Once more where somebody takes a partition meanwhile, or begins one: he has not read yet
        that the flow is stopped."""
        tools = self._tools
        found: dict[ids.TopicPartition, fencing.Fenced] = {}
        taken: list[ids.TopicPartition] = []

        def locked_out() -> bool:
            tools.stop()
            known = self._known()
            wanted = {*taken, *(self._to_fence(known) - found.keys())}
            found.update({each.partition: each for each in tools.fence(known, wanted)})
            tools.pause(TURN_S)
            known = self._known()
            taken[:] = [place for place, each in found.items() if fencing.taken_since(known, each)]
            taken.extend(sorted(self._to_fence(known) - found.keys()))
            return not taken

        self._await(
            locked_out, lambda: f"somebody copies {taken[0]} still, though the flow is stopped"
        )
        return [found[each] for each in sorted(found)]

    def _known(self) -> offset_map.OffsetMap:
        both = self._tools.both
        return mirrors.read_map(both.target, both.flow.source, self._tools.planner.timeout_s)

    def _to_fence(self, known: offset_map.OffsetMap) -> set[ids.TopicPartition]:
        return fencing.to_fence(self._tools.both, known, timeout_s=self._tools.planner.timeout_s)

    def _mirrors(self) -> mirrors.Mirrors:
        planner = self._planner
        return mirrors.look(
            self._tools.both,
            clock=self._tools.clock,
            timeout_s=planner.timeout_s,
            lost=planner.lost,
        )

    @property
    def _planner(self) -> planning.Planner:
        """A cluster that was lost when the move began is not waited for again."""
        planner = self._tools.planner
        recorded = self._file.found.details.get(Step.RECORD)
        silent = "" if recorded is None or self._wanted.planned else recorded["plan"]["silent"]
        return dataclasses.replace(planner, lost=planner.lost or silent)

    def _look_again(self) -> Detail:
        """Whoever has taken a partition since it was fenced, or begun one, is fenced once more."""
        fenced = details.fenced(self._file.found.details[Step.FENCE])
        again: list[fencing.Fenced] = []
        known = self._known()
        fresh = self._to_fence(known) - {each.partition for each in fenced}
        if fresh or any(fencing.taken_since(known, each) for each in fenced):
            again = fenced = self._fenced()
        settled = None
        if self._wanted.planned:
            ends = details.partitions(self._file.found.details[Step.AGREE]["ends"])
            settled = seen.Settled(ends=ends)
        found = self._planner.make(
            self._wanted,
            fences=details.fences(fenced),
            settled=settled,
            before=details.before(self._file.found.details[Step.RECORD]),
        )
        if found.verdict is verdicts.Verdict.NO_GO:
            raise errors.RetriableError(
                f"no-go: {reasons(found)}. The flow is stopped; no group was moved: mend it, or "
                "--accept the finding, and --resume; or let the flow go on (mm2 resume "
                f"'{self._begun.flow}') and begin anew later"
            )
        return {
            "plan": show.as_json(found, tuple(self._begun.hooks), {}),
            "fenced_again": [details.of_fenced(each) for each in again],
            "groups": [details.of_group(each) for each in found.groups if each.barred is None],
        }

    def _move_groups(self) -> Detail:
        """Who stands there already, or has got further, is not written again: it may be that we
        died behind the write, or that somebody consumes there by now."""
        groups, timeout_s = self._tools.both.target.groups, self._tools.planner.timeout_s
        finals = details.finals(self._file.found.details[Step.LOOK_AGAIN])
        waiting = {name: each for name, each in finals.items() if name not in self._moved}
        standing = groups.positions(list(waiting), timeout_s)
        failure = standing.first_failure()
        if failure is not None:
            raise failure
        writes = {
            name: {
                place: at
                for place, at in each.positions.items()
                if each.is_to_be_written(place, standing.done[name].get(place))
            }
            for name, each in waiting.items()
        }
        written = groups.write({name: each for name, each in writes.items() if each}, WRITE_S)
        refused = [f"group {name}: {error}" for name, error in sorted(written.failed.items())] + [
            f"group {name}, {place}: {error}"
            for name, places in sorted(written.done.items())
            for place, error in places.items()
        ]
        whole = {name for name, places in written.done.items() if not places}
        for name in sorted(waiting):
            if name in whole or not writes[name]:
                self._note(journal.group_moved(name, at_ms=self._tools.clock.wall_ms()))
        if refused:
            raise errors.RetriableError(f"not all groups were moved: {'; '.join(refused)}")
        return {"groups": sorted(self._moved)}

    @property
    def _moved(self) -> Collection[str]:
        return self._file.found.moved

    def _verify(self) -> Detail:
        """Further is right, too: whoever consumes there already goes on."""
        finals = details.finals(self._file.found.details[Step.LOOK_AGAIN])
        timeout_s = self._tools.planner.timeout_s
        found = self._tools.both.target.groups.positions(list(finals), timeout_s)
        failure = found.first_failure()
        if failure is not None:
            raise failure
        wrong = [
            f"group {name}, {place}: {_offset(stands)}, not {at.offset}"
            for name, final in finals.items()
            for place, at in final.positions.items()
            if (stands := found.done[name].get(place)) is None or stands.offset < at.offset
        ]
        if wrong:
            raise errors.FatalError(
                f"groups stand before where they were moved to: {'; '.join(wrong)}. Did somebody "
                "set them back? They would read again from there"
            )
        return {"positions": sum(len(final.positions) for final in finals.values())}

    def _report(self) -> Detail:
        found = self._file.found
        final = found.details[Step.LOOK_AGAIN]["plan"]
        return {
            **details.report(found, final, now_ms=self._tools.clock.wall_ms()),
            "stranded_records": self._stranded(final),
        }

    def _stranded(self, final: Mapping[str, Any]) -> int | None:
        """What came to the cluster that was left after the last look there; None: nobody can
        tell."""
        try:
            now = self._mirrors().mirrored
        except errors.ConnectError:
            return None
        return details.stranded(final, {each.partition: each.here for each in now})


def reasons(found: plan.Plan) -> str:
    """Why it is a no-go."""
    return "; ".join(each.text for each in found.findings if each.weight is verdicts.Weight.FORBIDS)


def _offset(position: checkpoints.OffsetAndMetadata | None) -> int | None:
    return None if position is None else position.offset
