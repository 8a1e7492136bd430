"""Executes a failover step by step.

Each step is executed, verified and recorded in the journal before the next one begins. Steps are
idempotent: after a crash, the failover resumes at the first step that is not completed.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from mm2 import text_format
from mm2.clusters import fencing_results, replication_progress
from mm2.clusters.cluster_pair_snapshot import MatchingEndOffsets
from mm2.clusters.replication_progress import MirrorState
from mm2.failover import (
    failover_journal,
    failover_steps,
    flow_stop,
    group_offset_writes,
    hook_commands,
    interrupted_failover,
    journal_step_results,
    plan_output,
    quiescence,
    writer_fencing,
)
from mm2.failover.failover_context import FailoverContext
from mm2.failover.failover_journal import FailoverIdentity
from mm2.failover.failover_journal_file import JournalFile
from mm2.failover.failover_plan import FailoverPlan
from mm2.failover.failover_planner import FailoverPlanner, FencedFlowState
from mm2.failover.failover_request import FailoverRequest
from mm2.failover.failover_steps import FailoverStep
from mm2.failover.journal_step_results import FinalPositions
from mm2.failover.plan_findings import PlanSeverity, PlanVerdict
from mm2.offsets.group_offset_sync import GroupState
from mm2.suggested_commands import OperatorCommands


def export_unreplicated_records(
    context: FailoverContext, request: FailoverRequest, *, move: str
) -> int:
    """Write the unreplicated records to the file `request.export` (option `--export`); return the
    number of records.

    Neither cluster is changed. Raises `FatalError` if the records cannot be counted or the file
    cannot be written, and `RetriableError` if a cluster does not respond.
    """
    _, left = context.planner.build_plan_with_tails(request)
    unknown = [f"{place}" for place, tail in sorted(left.items()) if tail.ranges is None]
    if unknown:
        raise FatalError(
            f"{', '.join(unknown)}: not all records of {request.destination} that were never "
            "replicated could be counted; copy them by other means, or run without --export"
        )
    ordered = [tail for _, tail in sorted(left.items())]
    return context.export_records(pathlib.Path(request.export), ordered, move)


_Detail = Mapping[str, Any]
_Step = FailoverStep


class FailoverRefusedError(FatalError):
    """Raised if the plan's verdict is NO-GO; nothing was changed."""


class FailoverExecutor:
    """Executes one failover; `run_remaining_steps` executes the steps that are not completed."""

    def __init__(
        self,
        file: JournalFile,
        context: FailoverContext,
        *,
        plan: FailoverPlan | None = None,
    ) -> None:
        """Create the executor of a failover. `plan` is the failover's plan if it has already been
        built."""
        assert file.journal.identity is not None, file.path
        self._planned = plan
        self._file = file
        self._context = context
        self._identity: FailoverIdentity = file.journal.identity
        self._request = dataclasses.replace(self._identity.request, file=context.file)
        self._actions: Mapping[_Step, Callable[[], _Detail]] = {
            _Step.RECORD: self._record_plan,
            _Step.EXPORT: self._export_records,
            _Step.IDLE: self._wait_for_idle_groups,
            _Step.AGREE: self._wait_for_equal_log_ends,
            _Step.STOP_FLOW: self._stop_flow,
            _Step.FENCE: self._fence_partitions,
            _Step.FINAL_POSITIONS: self._compute_final_positions,
            _Step.MOVE_GROUPS: self._move_groups,
            _Step.VERIFY: self._verify_offsets,
            _Step.REPORT: self._build_report,
        }

    def run_remaining_steps(self) -> None:
        """Execute the remaining steps. Raises `ConnectError` if a step fails; the next run repeats
        that step."""
        about, found = self._context, self._file.journal
        if found.next_step is not None:
            self._repeat_outdated_steps()
        while (step := found.next_step) is not None:
            about.print_line(f"{step.value}: {self._describe_step(step)}")
            self._append_entry(
                failover_journal.encode_step_started(step, at_ms=about.clock.wall_ms())
            )
            try:
                detail = (
                    self._run_hook(step)
                    if step in failover_steps.HOOK_STEPS
                    else self._actions[step]()
                )
            except ConnectError as error:
                self._append_entry(
                    failover_journal.encode_step_failed(
                        step, str(error), at_ms=about.clock.wall_ms()
                    )
                )
                if given_up := interrupted_failover.explain_how_to_abandon(
                    found, path=str(self._file.path), resume=self._resume_command
                ):
                    about.print_line(given_up)
                go_on = self._request.build_command("--resume", "--journal", str(self._file.path))
                about.print_line(f"{step.value} failed; to resume the failover: {go_on}")
                raise
            self._append_entry(
                failover_journal.encode_step_done(step, detail, at_ms=about.clock.wall_ms())
            )
            about.print_line(journal_step_results.format_step_verification(step, detail))

    def _describe_step(self, step: _Step) -> str:
        one_name = not self._context.clusters.flow.policy.renames_topics
        return failover_steps.describe_step(
            step, self._request, self._identity.flow, same_names=one_name
        )

    @property
    def _resume_command(self) -> str:
        """Command that the operator runs to resume the flow."""
        file = os.path.abspath(self._context.file)
        return OperatorCommands(file=file).build_resume_command(self._identity.flow, None)

    def _append_entry(self, line: str) -> None:
        self._file.append_entry(line)

    def _repeat_outdated_steps(self) -> None:
        """Repeat the steps whose results may be outdated because the failover was interrupted,
        possibly for hours: fencing, end offsets, group members and positions."""
        found, about = self._file.journal, self._context
        if _Step.STOP_FLOW in found.details:
            age_s = max(0, about.clock.wall_ms() - found.begun_at_ms) / 1000
            about.print_line(
                f"the failover began {text_format.format_duration(age_s)} ago; "
                "stopping the flow "
                "again before resuming the failover"
            )
            self._stop_flow()
            if found.moved and _Step.MOVE_GROUPS not in found.details:
                self._check_partly_moved_groups()
        elif _Step.STOP_FLOW in found.started_ms:
            about.print_line(
                "the flow may be stopped already: if records are left to replicate, resume it with "
                f"{self._resume_command}"
            )
        for step in interrupted_failover.find_outdated_steps(found):
            about.print_line(f"{step.value} is repeated: its result may be outdated")
            self._append_entry(
                failover_journal.encode_step_voided(step, at_ms=about.clock.wall_ms())
            )

    def _check_partly_moved_groups(self) -> None:
        """Raise `FatalError` if a partly executed failover can no longer be completed
        consistently."""
        found, about = self._file.journal, self._context
        known = about.read_offset_map()
        why = interrupted_failover.explain_outdated_positions(
            found,
            offset_map=known,
            to_fence=writer_fencing.list_partitions_to_fence(about, known),
            mirrored=self._collect_mirrors().mirrored if self._request.is_planned else (),
        )
        if why:
            raise FatalError(
                f"{why} since the final positions were computed. {', '.join(sorted(found.moved))} "
                "were moved to these positions; the other groups were not moved. The flow is "
                "stopped. Begin a new failover for the other groups with --group"
            )
        if _Step.FINAL_POSITIONS in found.details:
            group_offset_writes.record_written_groups(
                about, self._final_positions, moved=found.moved, on_moved=self._record_moved_group
            )

    def _record_moved_group(self, group: str) -> None:
        self._append_entry(
            failover_journal.encode_group_moved_entry(group, at_ms=self._context.clock.wall_ms())
        )

    def _run_hook(self, step: _Step) -> _Detail:
        hook = self._context.hooks.get(step.value)
        if hook is None:
            self._context.print_line(f"{step.value}: no hook is configured: perform this step now")
            return {"by": "operator"}
        return {
            "output": hook_commands.run_hook(
                hook, step, request=self._request, flow=self._identity.flow
            )
        }

    def _record_plan(self) -> _Detail:
        found = self._planned or self._context.planner.build_plan(self._request)
        if found.verdict is PlanVerdict.NO_GO:
            raise FailoverRefusedError(
                f"no-go: {explain_failover_refusal(found)}. Nothing was changed"
            )
        return {"plan": plan_output.plan_to_json(found, tuple(self._identity.hooks), {})}

    def _export_records(self) -> _Detail:
        move = f"{self._identity.flow} {self._file.journal.begun_at_ms}"
        written = export_unreplicated_records(self._context, self._request, move=move)
        return {"file": self._request.export, "records": written}

    def _wait_for_idle_groups(self) -> _Detail:
        names = journal_step_results.list_groups_to_stop(self._file.journal.details[_Step.RECORD])
        return {"groups": quiescence.wait_for_idle_groups(self._context, self._request, names)}

    def _wait_for_equal_log_ends(self) -> _Detail:
        agreed = quiescence.wait_for_equal_log_ends(self._context, self._request)
        return {"ends": journal_step_results.encode_offsets(agreed.ends)}

    def _stop_flow(self) -> _Detail:
        stopped = flow_stop.stop_flow(self._context, self._request)
        return {"connectors": stopped.connectors, "still_running": stopped.running}

    def _fence_partitions(self) -> _Detail:
        fenced = flow_stop.fence_flow(self._context, self._request)
        return {"partitions": [journal_step_results.encode_fencing_result(each) for each in fenced]}

    def _collect_mirrors(self) -> MirrorState:
        planner = self._planner
        return replication_progress.collect_mirror_state(
            self._context.clusters,
            clock=self._context.clock,
            timeout_s=planner.timeout_s,
            lost_reason=planner.lost_reason,
        )

    @property
    def _planner(self) -> FailoverPlanner:
        """Planner of this failover, which does not query the origin if it was already lost when the
        failover began."""
        planner = self._context.planner
        recorded = self._file.journal.details.get(_Step.RECORD)
        silent = (
            "" if recorded is None or self._request.is_planned else recorded["plan"]["origin_error"]
        )
        return dataclasses.replace(planner, lost_reason=planner.lost_reason or silent)

    def _compute_final_positions(self) -> _Detail:
        """Plan the failover again to compute the final positions. Partitions that were acquired
        since the last fencing are fenced again first."""
        noted = self._file.journal
        fenced = interrupted_failover.read_last_fencing(noted)
        again = flow_stop.fence_flow_again(self._context, self._request, fenced)
        settled = None
        if self._request.is_planned:
            ends = journal_step_results.decode_offsets(noted.details[_Step.AGREE]["ends"])
            settled = MatchingEndOffsets(ends=ends)
        found = self._planner.build_plan(
            self._request,
            FencedFlowState(
                fencing=fencing_results.summarize_fencing(again or fenced),
                agreed_ends=settled,
                baseline=journal_step_results.decode_plan_baseline(noted.details[_Step.RECORD]),
            ),
        )
        found = interrupted_failover.drop_moved_groups(found, noted.moved)
        if found.verdict is PlanVerdict.NO_GO:
            raise RetriableError(
                f"no-go: {explain_failover_refusal(found)}. {self._explain_how_to_continue()}"
            )
        detail = {
            "plan": plan_output.plan_to_json(found, tuple(self._identity.hooks), {}),
            "fenced_again": [journal_step_results.encode_fencing_result(each) for each in again],
            "groups": [
                journal_step_results.encode_group_positions(each)
                for each in found.groups
                if journal_step_results.is_group_moved(each)
            ],
        }
        if not noted.moved:
            return detail
        return journal_step_results.merge_final_positions(
            detail, noted.voided[_Step.FINAL_POSITIONS], noted.moved
        )

    def _explain_how_to_continue(self) -> str:
        moved = sorted(self._file.journal.moved)
        said = (
            f"The flow is stopped; groups moved: {', '.join(moved) or 'none'}. Fix the cause, or "
            "accept the finding with --accept; then run the command again with --resume"
        )
        if moved:
            return said
        return f"{said}; or resume the flow ({self._resume_command}) and start over later"

    def _move_groups(self) -> _Detail:
        moved = self._file.journal.moved
        left = group_offset_writes.write_group_offsets(
            self._context,
            self._final_positions,
            self._request,
            moved=moved,
            on_moved=self._record_moved_group,
        )
        return {"groups": sorted(moved), "skipped": left}

    @property
    def _final_positions(self) -> Mapping[str, FinalPositions]:
        return journal_step_results.decode_final_positions(
            self._file.journal.details[_Step.FINAL_POSITIONS]
        )

    def _verify_offsets(self) -> _Detail:
        left = self._file.journal.details[_Step.MOVE_GROUPS]["skipped"]
        finals = {name: each for name, each in self._final_positions.items() if name not in left}
        found = group_offset_writes.compare_committed_offsets(
            finals, group_offset_writes.read_group_offsets(self._context, finals)
        )
        wrong = group_offset_writes.select_unaccepted_positions(found, self._request.accepted)
        if wrong:
            raise FatalError(
                group_offset_writes.explain_unaccepted_positions(
                    wrong, self._request, journal=str(self._file.path)
                )
            )
        return {"positions": [group_offset_writes.position_to_json(each) for each in found]}

    def _build_report(self) -> _Detail:
        found = self._file.journal
        final = found.details[_Step.FINAL_POSITIONS]["plan"]
        return {
            **journal_step_results.build_report(found, final, now_ms=self._context.clock.wall_ms()),
            "stranded_records": self._count_records_after_snapshot(final),
            "active": self._find_active_groups(),
        }

    def _find_active_groups(self) -> list[str] | None:
        """Find the moved groups that have members on the destination; return None if this is
        unknown."""
        groups, moved = self._context.clusters.target.groups, sorted(self._file.journal.moved)
        try:
            states = groups.describe_group_states(moved, self._context.planner.timeout_s)
        except ConnectError:
            return None
        if states.failed:
            return None
        active = GroupState.ACTIVE
        return [name for name in moved if states.succeeded.get(name) is active]

    def _count_records_after_snapshot(self, final: Mapping[str, Any]) -> int | None:
        """Count the records written to the origin after the final snapshot; return None if
        unknown."""
        try:
            now = self._collect_mirrors().mirrored
        except ConnectError:
            return None
        return journal_step_results.count_records_after_snapshot(
            final, {each.partition: each.source_bounds for each in now}
        )


def explain_failover_refusal(found: FailoverPlan) -> str:
    """Join the descriptions of all findings that forbid the failover."""
    return "; ".join(each.text for each in found.findings if each.severity is PlanSeverity.FORBIDS)
