"""`MoveExecutor`: executes a move step by step.

Each step is done, read back and recorded in the journal before the next one begins. Steps can be
repeated: after a crash the move resumes at the first step that is not done.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from mm2 import text_format
from mm2.clusters import fencing_results, mirror_state
from mm2.clusters.mirror_state import MirrorState
from mm2.clusters.pair_snapshot import AgreedEnds
from mm2.failover import (
    flow_stop,
    group_offset_writes,
    hooks,
    interrupted_move,
    journal,
    move_steps,
    plan_output,
    quiescence,
    step_details,
    writer_fencing,
)
from mm2.failover.journal import MoveIdentity
from mm2.failover.journal_file import JournalFile
from mm2.failover.move_context import MoveContext
from mm2.failover.move_plan import MovePlan
from mm2.failover.move_request import MoveRequest
from mm2.failover.move_steps import MoveStep
from mm2.failover.plan_findings import PlanSeverity, PlanVerdict
from mm2.failover.planner import ClosedFlow, MovePlanner
from mm2.failover.step_details import FinalPositions
from mm2.offsets.group_offset_sync import GroupState
from mm2.operator_commands import OperatorCommands


def export_unreplicated(about: MoveContext, wanted: MoveRequest, *, move: str) -> int:
    """Into the file `wanted.export`, for the move of this name; how many records. Neither cluster
    is changed.

    Raises `FatalError`, also where they cannot be counted, and `RetriableError`.
    """
    _, left = about.planner.look(wanted)
    unknown = [f"{place}" for place, tail in sorted(left.items()) if tail.stretches is None]
    if unknown:
        raise FatalError(
            f"{', '.join(unknown)}: more records than can be counted never left "
            f"{wanted.destination}; copy them by other means, or do without --export"
        )
    ordered = [tail for _, tail in sorted(left.items())]
    return about.export(pathlib.Path(wanted.export), ordered, move)


_Detail = Mapping[str, Any]
_Step = MoveStep


class MoveRefusedError(FatalError):
    """The plan says no-go; nothing was done."""


class MoveExecutor:
    """One move; `run` does what is left of it."""

    def __init__(
        self,
        file: JournalFile,
        about: MoveContext,
        *,
        planned: MovePlan | None = None,
    ) -> None:
        """`planned`: the plan, where it was made just now."""
        assert file.found.begun is not None, file.path
        self._planned = planned
        self._file = file
        self._tools = about
        self._begun: MoveIdentity = file.found.begun
        self._wanted = dataclasses.replace(self._begun.wanted, file=about.file)
        self._do: Mapping[_Step, Callable[[], _Detail]] = {
            _Step.RECORD: self._record,
            _Step.EXPORT: self._export,
            _Step.IDLE: self._idle,
            _Step.AGREE: self._agree,
            _Step.STOP_FLOW: self._stop_flow,
            _Step.FENCE: self._fence,
            _Step.LOOK_AGAIN: self._look_again,
            _Step.MOVE_GROUPS: self._move_groups,
            _Step.VERIFY: self._verify,
            _Step.REPORT: self._report,
        }

    def run(self) -> None:
        """Raises `ConnectError` where a step fails; it is done again next time."""
        about, found = self._tools, self._file.found
        if found.next_step is not None:
            self._take_up()
        while (step := found.next_step) is not None:
            about.tell(f"{step.value}: {self._text(step)}")
            self._note(journal.encode_started(step, at_ms=about.clock.wall_ms()))
            try:
                detail = self._hook(step) if step in move_steps.HOOK_STEPS else self._do[step]()
            except ConnectError as error:
                self._note(journal.encode_failed(step, str(error), at_ms=about.clock.wall_ms()))
                if given_up := interrupted_move.explain_abandoning(
                    found, path=str(self._file.path), resume=self._resume
                ):
                    about.tell(given_up)
                go_on = self._wanted.command("--resume", "--journal", str(self._file.path))
                about.tell(f"{step.value} failed; the move goes on from there with: {go_on}")
                raise
            self._note(journal.encode_done(step, detail, at_ms=about.clock.wall_ms()))
            about.tell(step_details.format_read_back(step, detail))

    def _text(self, step: _Step) -> str:
        one_name = not self._tools.both.flow.policy.renames_topics
        return move_steps.describe_step(step, self._wanted, self._begun.flow, one_name=one_name)

    @property
    def _resume(self) -> str:
        """The command that lets the flow go on."""
        file = os.path.abspath(self._tools.file)
        return OperatorCommands(file=file).go_on(self._begun.flow, None)

    def _note(self, line: str) -> None:
        self._file.append(line)

    def _take_up(self) -> None:
        """Who goes on cannot know what was done meanwhile, and it may be hours. What was taken for
        final is looked at once more: fences, ends, members and positions."""
        found, about = self._file.found, self._tools
        if _Step.STOP_FLOW in found.details:
            age_s = max(0, about.clock.wall_ms() - found.begun_at_ms) / 1000
            about.tell(
                f"the move was begun {text_format.format_duration(age_s)} ago; the flow is "
                "stopped once more "
                "before it goes on"
            )
            self._stop_flow()
            if found.moved and _Step.MOVE_GROUPS not in found.details:
                self._mind_the_moved()
        elif _Step.STOP_FLOW in found.started_ms:
            about.tell(
                "the flow may be stopped already: if something is left to copy, let it go on with "
                f"{self._resume}"
            )
        for step in interrupted_move.find_outdated_steps(found):
            about.tell(f"{step.value} is done again: nobody knows what was done meanwhile")
            self._note(journal.encode_voided(step, at_ms=about.clock.wall_ms()))

    def _mind_the_moved(self) -> None:
        """Of a move that was done in part: raises where the others cannot be moved beside them."""
        found, about = self._file.found, self._tools
        known = about.known()
        why = interrupted_move.explain_change(
            found,
            known=known,
            to_fence=writer_fencing.list_partitions_to_fence(about, known),
            mirrored=self._mirrors().mirrored if self._wanted.planned else (),
        )
        if why:
            raise FatalError(
                f"{why} since the final positions were taken. {', '.join(sorted(found.moved))} "
                "were moved by them, the other groups were not: begin a new move for those, with "
                "--group; the flow is stopped"
            )
        if _Step.LOOK_AGAIN in found.details:
            group_offset_writes.record_written_groups(
                about, self._finals, moved=found.moved, note=self._note_moved
            )

    def _note_moved(self, group: str) -> None:
        self._note(journal.encode_group_moved(group, at_ms=self._tools.clock.wall_ms()))

    def _hook(self, step: _Step) -> _Detail:
        hook = self._tools.hooks.get(step.value)
        if hook is None:
            self._tools.tell(f"{step.value}: no hook is given: do it now")
            return {"by": "operator"}
        return {"output": hooks.run_hook(hook, step, wanted=self._wanted, flow=self._begun.flow)}

    def _record(self) -> _Detail:
        found = self._planned or self._tools.planner.make(self._wanted)
        if found.verdict is PlanVerdict.NO_GO:
            raise MoveRefusedError(f"no-go: {explain_refusal(found)}. Nothing was done")
        return {"plan": plan_output.plan_to_json(found, tuple(self._begun.hooks), {})}

    def _export(self) -> _Detail:
        move = f"{self._begun.flow} {self._file.found.begun_at_ms}"
        written = export_unreplicated(self._tools, self._wanted, move=move)
        return {"file": self._wanted.export, "records": written}

    def _idle(self) -> _Detail:
        names = step_details.list_groups_to_wait_for(self._file.found.details[_Step.RECORD])
        return {"groups": quiescence.wait_for_idle_groups(self._tools, self._wanted, names)}

    def _agree(self) -> _Detail:
        agreed = quiescence.wait_for_equal_ends(self._tools, self._wanted)
        return {"ends": step_details.encode_offsets(agreed.ends)}

    def _stop_flow(self) -> _Detail:
        stopped = flow_stop.stop_flow(self._tools, self._wanted)
        return {"connectors": stopped.connectors, "still_running": stopped.running}

    def _fence(self) -> _Detail:
        fenced = flow_stop.fence_flow(self._tools, self._wanted)
        return {"partitions": [step_details.encode_fencing_result(each) for each in fenced]}

    def _mirrors(self) -> MirrorState:
        planner = self._planner
        return mirror_state.collect_mirror_state(
            self._tools.both,
            clock=self._tools.clock,
            timeout_s=planner.timeout_s,
            lost=planner.lost,
        )

    @property
    def _planner(self) -> MovePlanner:
        """A cluster that was lost when the move began is not waited for again."""
        planner = self._tools.planner
        recorded = self._file.found.details.get(_Step.RECORD)
        silent = "" if recorded is None or self._wanted.planned else recorded["plan"]["silent"]
        return dataclasses.replace(planner, lost=planner.lost or silent)

    def _look_again(self) -> _Detail:
        """Whoever has taken a partition since it was fenced, or begun one, is fenced once more."""
        noted = self._file.found
        fenced = interrupted_move.read_last_fencing(noted)
        again = flow_stop.fence_flow_again(self._tools, self._wanted, fenced)
        settled = None
        if self._wanted.planned:
            ends = step_details.decode_offsets(noted.details[_Step.AGREE]["ends"])
            settled = AgreedEnds(ends=ends)
        found = self._planner.make(
            self._wanted,
            ClosedFlow(
                locked=fencing_results.summarize_fencing(again or fenced),
                settled=settled,
                before=step_details.decode_baseline(noted.details[_Step.RECORD]),
            ),
        )
        found = interrupted_move.drop_moved_groups(found, noted.moved)
        if found.verdict is PlanVerdict.NO_GO:
            raise RetriableError(f"no-go: {explain_refusal(found)}. {self._way_on_when_closed()}")
        detail = {
            "plan": plan_output.plan_to_json(found, tuple(self._begun.hooks), {}),
            "fenced_again": [step_details.encode_fencing_result(each) for each in again],
            "groups": [
                step_details.encode_group(each)
                for each in found.groups
                if step_details.is_group_moved(each)
            ],
        }
        if not noted.moved:
            return detail
        return step_details.merge_final_positions(
            detail, noted.voided[_Step.LOOK_AGAIN], noted.moved
        )

    def _way_on_when_closed(self) -> str:
        moved = sorted(self._file.found.moved)
        said = (
            f"The flow is stopped; groups moved: {', '.join(moved) or 'none'}. Correct the cause, "
            "or accept the finding with --accept; then run the command again with --resume"
        )
        if moved:
            return said
        return f"{said}; or resume the flow ({self._resume}) and start over later"

    def _move_groups(self) -> _Detail:
        moved = self._file.found.moved
        left = group_offset_writes.write_group_offsets(
            self._tools, self._finals, self._wanted, moved=moved, note=self._note_moved
        )
        return {"groups": sorted(moved), "left": left}

    @property
    def _finals(self) -> Mapping[str, FinalPositions]:
        return step_details.decode_final_positions(self._file.found.details[_Step.LOOK_AGAIN])

    def _verify(self) -> _Detail:
        left = self._file.found.details[_Step.MOVE_GROUPS]["left"]
        finals = {name: each for name, each in self._finals.items() if name not in left}
        found = group_offset_writes.compare_positions(
            finals, group_offset_writes.read_group_offsets(self._tools, finals)
        )
        wrong = group_offset_writes.select_unaccepted_positions(found, self._wanted.accepted)
        if wrong:
            raise FatalError(
                group_offset_writes.explain_unaccepted_positions(
                    wrong, self._wanted, journal=str(self._file.path)
                )
            )
        return {"positions": [group_offset_writes.position_to_json(each) for each in found]}

    def _report(self) -> _Detail:
        found = self._file.found
        final = found.details[_Step.LOOK_AGAIN]["plan"]
        return {
            **step_details.build_report(found, final, now_ms=self._tools.clock.wall_ms()),
            "stranded_records": self._stranded(final),
            "active": self._active(),
        }

    def _active(self) -> list[str] | None:
        """The groups moved that have members there by now; None: nobody can tell."""
        groups, moved = self._tools.both.target.groups, sorted(self._file.found.moved)
        try:
            states = groups.states(moved, self._tools.planner.timeout_s)
        except ConnectError:
            return None
        if states.failed:
            return None
        active = GroupState.ACTIVE
        return [name for name in moved if states.done.get(name) is active]

    def _stranded(self, final: Mapping[str, Any]) -> int | None:
        """What came to the cluster that was left after the last look there; None: nobody can
        tell."""
        try:
            now = self._mirrors().mirrored
        except ConnectError:
            return None
        return step_details.count_stranded(final, {each.partition: each.here for each in now})


def explain_refusal(found: MovePlan) -> str:
    """Why it is a no-go."""
    return "; ".join(each.text for each in found.findings if each.weight is PlanSeverity.FORBIDS)
