"""`mm2 why`: explains how a topic is replicated, or why it is not replicated.

Processes on this machine report the flows that they run. Other flows are read from both clusters.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import click

from connect_runtime.base.clock_and_deadline import Deadline
from connect_runtime.system.system_clock import SystemClock
from mm2 import exit_codes, text_format
from mm2.cli import flow_reports, options, terminal_output
from mm2.config import config_loader
from mm2.config.mm2_settings import Mm2Settings
from mm2.status import process_socket
from mm2.status.process_socket import ExplainRequest, ProcessSocketError
from mm2.topics.flow_config import Flow

JSON_VERSION = 1
EXTRA_TIMEOUT_S = 5.0
"""Time limit in seconds for supplementary information: whether an unreplicated topic exists, and
which operator paused it."""


@click.command("why")
@click.argument("words", nargs=-1, metavar="[FILE] TOPIC")
@options.unresolved_config_option
@options.json_option
@options.timeout_option(15.0, "How long to wait for a process, or for the clusters of a flow.")
def why_command(
    *, words: tuple[str, ...], config: pathlib.Path | None, as_json: bool, timeout_s: float
) -> int:
    """Explain how TOPIC is replicated, or why it is not.

    TOPIC is a source topic or its mirror topic. For each flow and partition, shows the rule that
    selects it, its offsets, and whether batches are passed through, re-encoded (and why), sent in
    transactions or at least once, or why the partition waits or is halted, with the remedy. For a
    topic that is not replicated, shows the reason and whether the topic exists. For a paused or
    stopped flow or topic, shows who paused or stopped it and when, if this was recorded.

    Queries the processes on this machine that run FILE (default: clusters.yaml). For flows that
    none of them replicates, reads both clusters.

    \b
    Examples:
      mm2 why orders
      mm2 why clusters.yaml east.orders --json
    """
    if not 1 <= len(words) <= 2:
        raise click.UsageError("pass one topic: mm2 why [FILE] TOPIC")
    file = options.choose_config_file(pathlib.Path(words[0]) if len(words) == 2 else None, config)
    topic = words[-1]
    settings = config_loader.load_config_file(file, environment=os.environ)
    told, failed, note = _query_processes(file, topic, timeout_s=timeout_s)
    replicating = [(pid, flow) for pid, flow in told if flow["partitions"]]
    known = {flow["flow"] for _, flow in replicating}
    remaining = [each for each in settings.flows if each.name not in known]
    candidates = [each for each in remaining if _may_replicate_topic(each, topic)]
    found = None
    if candidates or not replicating:
        states = {flow["flow"]: flow for _, flow in told if flow["state"]}
        found = _query_clusters(
            settings, remaining, candidates, topic, states=states, timeout_s=timeout_s
        )
    shown: list[tuple[int | None, Mapping[str, Any]]] = [*replicating]
    if found is not None:
        shown += [(None, each.as_json()) for each in found.flows]
    shown = _add_operator_actions(settings, shown, timeout_s=min(timeout_s, EXTRA_TIMEOUT_S))
    if as_json:
        flows_json = [{"process": pid, **flow} for pid, flow in shown]
        answer = {"version": JSON_VERSION, "topic": topic, "flows": flows_json}
        click.echo(json.dumps(answer, indent=2))
    code = _choose_exit_code(found, replicates=bool(replicating))
    if failed and code == exit_codes.BAD_INPUT:
        code = exit_codes.UNKNOWN
    several = len({pid for pid, _ in replicating}) > 1
    for pid, flow in shown:
        for line in flow["lines"] if not as_json else ():
            prefix = f"{pid}: " if several and pid is not None else ""
            terminal_output.print_line(f"{prefix}{line}", err=code != exit_codes.DONE)
    for line in failed:
        terminal_output.print_line(line, err=True)
    if found is not None and not as_json and code == exit_codes.DONE:
        terminal_output.print_line(f"{note}; the explanation was read from the clusters")
    return code


_ProcessFlow = tuple[int, Mapping[str, Any]]
"""Process id of a local process, and its explanation of a topic for one flow, as JSON."""


def _query_processes(
    file: pathlib.Path, topic: str, *, timeout_s: float
) -> tuple[list[_ProcessFlow], list[str], str]:
    """Query local processes for explanations of the topic.

    Returns one explanation per flow, the processes' error lines, and a note on why the remaining
    flows are read from the clusters.
    """
    question = ExplainRequest(topic=topic)
    try:
        answers = process_socket.query_processes(
            file, question, folder=process_socket.find_socket_directory(), timeout_s=timeout_s
        )
    except ProcessSocketError as error:
        return [], [], str(error).partition(":")[0]
    found: list[_ProcessFlow] = []
    failed: list[str] = []
    for pid, answer in answers.items():
        if answer.code not in (exit_codes.DONE, exit_codes.BAD_INPUT):
            failed += [f"process {pid}: {line}" for line in answer.lines]
        flows = answer.detail.get("flows", ())
        found += [(pid, flow) for flow in flows]
    return found, failed, "no process on this machine replicates the topic"


def _may_replicate_topic(flow: Any, topic: str) -> bool:
    from mm2.status import topic_explanation

    return topic_explanation.may_mirror_topic(flow, topic)


def _query_clusters(
    settings: Mm2Settings,
    remaining: Sequence[Flow],
    candidates: Sequence[Flow],
    topic: str,
    *,
    states: Mapping[str, Mapping[str, Any]],
    timeout_s: float,
) -> Any:
    """Return a `TopicExplanation` of the flows `remaining`, read from their clusters.

    Progress is read only for the flows in `candidates`, which may replicate the topic. For all
    other flows, only the existence of the topic is checked. `states` contains the flow states that
    local processes reported, which take precedence.
    """
    from mm2.cli import library_log_redirection
    from mm2.status import topic_explanation
    from mm2.status.topic_explanation import TopicExplanation

    with library_log_redirection.redirect_library_logs():
        collect = flow_reports.make_flow_report_collector(settings, timeout_s=timeout_s)
        reports = [
            _merge_process_state_into_report(collect(flow), states.get(flow.name))
            for flow in candidates
        ]
        existing = topic_explanation.find_existing_topics(
            settings,
            [flow for flow in remaining if flow not in candidates],
            topic,
            clock=SystemClock(),
            timeout_s=min(timeout_s, EXTRA_TIMEOUT_S),
        )
    found = topic_explanation.explain_topic(settings, (), topic, reports=reports, existing=existing)
    names = {each.name for each in remaining}
    return TopicExplanation(topic=topic, flows=tuple(e for e in found.flows if e.flow in names))


def _merge_process_state_into_report(report: Any, told: Mapping[str, Any] | None) -> Any:
    """Return the report that was read from the clusters, with the flow state that the process
    reported."""
    from mm2.status.status_document import ReportedFlowState

    if told is None:
        return report
    if report.state is ReportedFlowState.UNKNOWN:
        return dataclasses.replace(report, reason=told["unhealthy"] or report.reason)
    state = ReportedFlowState(told["state"])
    return dataclasses.replace(report, state=state, reason=told["reason"])


def _add_operator_actions(
    settings: Mm2Settings,
    shown: Sequence[tuple[int | None, Mapping[str, Any]]],
    *,
    timeout_s: float,
) -> list[tuple[int | None, Mapping[str, Any]]]:
    """Add the recorded operator actions to each explanation of a paused or stopped flow or topic:
    who paused or stopped it, and when.

    Reads only the target clusters of these flows, all within `timeout_s`.
    """
    from mm2.cli import library_log_redirection
    from mm2.status import topic_explanation

    clock = SystemClock()
    end = Deadline.after(timeout_s, now_s=clock.now_s())
    by_name = {each.name: each for each in settings.flows}
    told: list[tuple[int | None, Mapping[str, Any]]] = []
    for pid, flow in shown:
        actions: list[Any] = []
        known = by_name.get(flow["flow"])
        if (
            known is not None
            and flow["partitions"]
            and topic_explanation.is_paused_or_stopped(flow)
        ):
            left_s = end.remaining_s(clock.now_s())
            with library_log_redirection.redirect_library_logs():
                actions = topic_explanation.read_override_actions(
                    settings, known, flow, clock=clock, timeout_s=left_s
                )
        lines = [
            f"{flow['flow']}: {text_format.format_time(each.at_ms)} {each.detail}"
            for each in actions
        ]
        as_json = [
            {"at_ms": each.at_ms, "topic": each.topic or None, "detail": each.detail}
            for each in actions
        ]
        more = {"operator_actions": as_json, "lines": [*flow["lines"], *lines]}
        told.append((pid, {**flow, **more}))
    return told


def _choose_exit_code(found: Any, *, replicates: bool) -> int:
    """Return the exit code of `mm2 why`; `found` is the explanation from the clusters, or None if
    the clusters were not read."""
    if replicates or found.explains_whether_topic_is_replicated:
        return exit_codes.DONE
    if not found.has_errors:
        return exit_codes.BAD_INPUT
    silent = all(each.error for each in found.flows)
    return exit_codes.UNREACHABLE if silent else exit_codes.UNKNOWN
