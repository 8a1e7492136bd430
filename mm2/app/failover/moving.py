"""Does a move step by step. Each step is done, read back and noted before the next begins, and may
be done again: after a crash it goes on where it was.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

from connect_runtime.base import errors
from mm2.app import figures
from mm2.app.failover import (
    closing,
    exporting,
    fence_turns,
    group_writes,
    hooks,
    journal_file,
    planning,
    show,
    tools,
    waiting,
)
from mm2.app.looks import mirrors
from mm2.core import commands
from mm2.core.failover import (
    details,
    fences,
    going_on,
    journal,
    plan,
    read_backs,
    seen,
    steps,
    verdicts,
    verifying,
)
from mm2.core.offsets import group_sync

Detail = Mapping[str, Any]
Step = steps.Step


class RefusedError(errors.FatalError):
    """The plan says no-go; nothing was done."""


class Mover:
    """One move; `run` does what is left of it."""

    def __init__(
        self,
        file: journal_file.JournalFile,
        about: tools.Tools,
        *,
        planned: plan.Plan | None = None,
    ) -> None:
        """`planned`: the plan, where it was made just now."""
        assert file.found.begun is not None, file.path
        self._planned = planned
        self._file = file
        self._tools = about
        self._begun: journal.Begun = file.found.begun
        self._wanted = dataclasses.replace(self._begun.wanted, file=about.file)
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
        about, found = self._tools, self._file.found
        if found.next_step is not None:
            self._take_up()
        while (step := found.next_step) is not None:
            about.tell(f"{step.value}: {self._text(step)}")
            self._note(journal.started(step, at_ms=about.clock.wall_ms()))
            try:
                detail = self._hook(step) if step in steps.HOOKS else self._do[step]()
            except errors.ConnectError as error:
                self._note(journal.failed(step, str(error), at_ms=about.clock.wall_ms()))
                if given_up := going_on.give_up(
                    found, path=str(self._file.path), resume=self._resume
                ):
                    about.tell(given_up)
                go_on = self._wanted.command("--resume", "--journal", str(self._file.path))
                about.tell(f"{step.value} failed; the move goes on from there with: {go_on}")
                raise
            self._note(journal.done(step, detail, at_ms=about.clock.wall_ms()))
            about.tell(read_backs.line(step, detail))

    def _text(self, step: Step) -> str:
        one_name = not self._tools.both.flow.policy.renames_topics
        return steps.text(step, self._wanted, self._begun.flow, one_name=one_name)

    @property
    def _resume(self) -> str:
        """The command that lets the flow go on."""
        file = os.path.abspath(self._tools.file)
        return commands.Operator(file=file).go_on(self._begun.flow, None)

    def _note(self, line: str) -> None:
        self._file.append(line)

    def _take_up(self) -> None:
        """Who goes on cannot know what was done meanwhile, and it may be hours. What was taken for
        final is looked at once more: fences, ends, members and positions."""
        found, about = self._file.found, self._tools
        if Step.STOP_FLOW in found.details:
            age_s = max(0, about.clock.wall_ms() - found.begun_at_ms) / 1000
            about.tell(
                f"the move was begun {figures.duration(age_s)} ago; the flow is stopped once more "
                "before it goes on"
            )
            self._stop_flow()
            if found.moved and Step.MOVE_GROUPS not in found.details:
                self._mind_the_moved()
        elif Step.STOP_FLOW in found.started_ms:
            about.tell(
                "the flow may be stopped already: if something is left to copy, let it go on with "
                f"{self._resume}"
            )
        for step in going_on.outdated(found):
            about.tell(f"{step.value} is done again: nobody knows what was done meanwhile")
            self._note(journal.voided(step, at_ms=about.clock.wall_ms()))

    def _mind_the_moved(self) -> None:
        """Of a move that was done in part: raises where the others cannot be moved beside them."""
        found, about = self._file.found, self._tools
        known = about.known()
        why = going_on.why_changed(
            found,
            known=known,
            to_fence=fence_turns.to_fence(about, known),
            mirrored=self._mirrors().mirrored if self._wanted.planned else (),
        )
        if why:
            raise errors.FatalError(
                f"{why} since the final positions were taken. {', '.join(sorted(found.moved))} "
                "were moved by them, the other groups were not: begin a new move for those, with "
                "--group; the flow is stopped"
            )
        if Step.LOOK_AGAIN in found.details:
            group_writes.note_written(about, self._finals, moved=found.moved, note=self._note_moved)

    def _note_moved(self, group: str) -> None:
        self._note(journal.group_moved(group, at_ms=self._tools.clock.wall_ms()))

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
        move = f"{self._begun.flow} {self._file.found.begun_at_ms}"
        written = exporting.write(self._tools, self._wanted, move=move)
        return {"file": self._wanted.export, "records": written}

    def _idle(self) -> Detail:
        names = details.waited_for(self._file.found.details[Step.RECORD])
        return {"groups": waiting.idle(self._tools, self._wanted, names)}

    def _agree(self) -> Detail:
        agreed = waiting.agree(self._tools, self._wanted)
        return {"ends": details.by_partition(agreed.ends)}

    def _stop_flow(self) -> Detail:
        stopped = closing.stop(self._tools, self._wanted)
        return {"connectors": stopped.connectors, "still_running": stopped.running}

    def _fence(self) -> Detail:
        fenced = closing.fence(self._tools, self._wanted)
        return {"partitions": [details.of_fenced(each) for each in fenced]}

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
        noted = self._file.found
        fenced = going_on.last_fenced(noted)
        again = closing.fence_again(self._tools, self._wanted, fenced)
        settled = None
        if self._wanted.planned:
            ends = details.partitions(noted.details[Step.AGREE]["ends"])
            settled = seen.Settled(ends=ends)
        found = self._planner.make(
            self._wanted,
            planning.Closed(
                locked=fences.together(again or fenced),
                settled=settled,
                before=details.before(noted.details[Step.RECORD]),
            ),
        )
        found = going_on.of_others(found, noted.moved)
        if found.verdict is verdicts.Verdict.NO_GO:
            raise errors.RetriableError(f"no-go: {reasons(found)}. {self._way_on_when_closed()}")
        detail = {
            "plan": show.as_json(found, tuple(self._begun.hooks), {}),
            "fenced_again": [details.of_fenced(each) for each in again],
            "groups": [details.of_group(each) for each in found.groups if details.is_moved(each)],
        }
        if not noted.moved:
            return detail
        return details.taken_again(detail, noted.voided[Step.LOOK_AGAIN], noted.moved)

    def _way_on_when_closed(self) -> str:
        moved = sorted(self._file.found.moved)
        said = (
            f"The flow is stopped; groups moved: {', '.join(moved) or 'none'}. Correct the cause, "
            "or accept the finding with --accept; then run the command again with --resume"
        )
        if moved:
            return said
        return f"{said}; or resume the flow ({self._resume}) and start over later"

    def _move_groups(self) -> Detail:
        moved = self._file.found.moved
        left = group_writes.write(
            self._tools, self._finals, self._wanted, moved=moved, note=self._note_moved
        )
        return {"groups": sorted(moved), "left": left}

    @property
    def _finals(self) -> Mapping[str, details.Final]:
        return details.finals(self._file.found.details[Step.LOOK_AGAIN])

    def _verify(self) -> Detail:
        left = self._file.found.details[Step.MOVE_GROUPS]["left"]
        finals = {name: each for name, each in self._finals.items() if name not in left}
        found = verifying.compare(finals, group_writes.read_back(self._tools, finals))
        wrong = verifying.wrong(found, self._wanted.accepted)
        if wrong:
            raise errors.FatalError(
                verifying.way_on(wrong, self._wanted, journal=str(self._file.path))
            )
        return {"positions": [verifying.as_json(each) for each in found]}

    def _report(self) -> Detail:
        found = self._file.found
        final = found.details[Step.LOOK_AGAIN]["plan"]
        return {
            **details.report(found, final, now_ms=self._tools.clock.wall_ms()),
            "stranded_records": self._stranded(final),
            "active": self._active(),
        }

    def _active(self) -> list[str] | None:
        """The groups moved that have members there by now; None: nobody can tell."""
        groups, moved = self._tools.both.target.groups, sorted(self._file.found.moved)
        try:
            states = groups.states(moved, self._tools.planner.timeout_s)
        except errors.ConnectError:
            return None
        if states.failed:
            return None
        active = group_sync.GroupState.ACTIVE
        return [name for name in moved if states.done.get(name) is active]

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
