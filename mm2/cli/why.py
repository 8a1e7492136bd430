"""`mm2 why`: explains how a topic is replicated, or why it is not, and how far.

Processes on this machine answer for the flows they run; both clusters are read for the rest.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import click

from connect_runtime.base.timing import Deadline
from connect_runtime.system.clock import SystemClock
from mm2 import exit_codes
from mm2.cli import flow_reports, options, terminal
from mm2.config import config_loader
from mm2.config.mm2_settings import Mm2Settings
from mm2.status import process_socket
from mm2.status.process_socket import ExplainRequest, ProcessSocketError
from mm2.topics.flow_config import Flow

JSON_VERSION = 1
EXTRA_TIMEOUT_S = 5.0
"""Whether a topic is there that is not replicated anyway, and who paused it, are worth no longer a
wait."""


@click.command("why")
@click.argument("words", nargs=-1, metavar="[FILE] TOPIC")
@options.config_option_only
@options.json_option
@options.timeout_option(15.0, "How long to wait for an answer, of a process or a flow's clusters.")
def command(
    *, words: tuple[str, ...], config: pathlib.Path | None, as_json: bool, timeout_s: float
) -> int:
    """Explain how TOPIC is replicated, or why it is not.

    TOPIC is a source topic or its mirror topic. For each flow and partition, shows the rule that
    selects it, how far it is, and whether batches are passed through, re-encoded (and why), sent in
    transactions or at least once, or why it waits or is halted, with the remedy. For a topic that
    is not replicated: why not, and whether it exists. For a paused or stopped flow or topic: who
    did it and when, if the target has a record of it.

    Asks the processes on this machine that run FILE (default: clusters.yaml); for flows that none
    of them replicates, asks both clusters.

    \b
    Examples:
      mm2 why orders
      mm2 why clusters.yaml east.orders --json
    """
    if not 1 <= len(words) <= 2:
        raise click.UsageError("say which topic: mm2 why [FILE] TOPIC")
    file = options.choose_config_file(pathlib.Path(words[0]) if len(words) == 2 else None, config)
    topic = words[-1]
    settings = config_loader.load(file, environment=os.environ)
    told, failed, note = _query_processes(file, topic, timeout_s=timeout_s)
    replicating = [(pid, flow) for pid, flow in told if flow["partitions"]]
    known = {flow["flow"] for _, flow in replicating}
    left = [each for each in settings.flows if each.name not in known]
    asked = [each for each in left if _may_concern(each, topic)]
    found = None
    if asked or not replicating:
        states = {flow["flow"]: flow for _, flow in told if flow["state"]}
        found = _query_clusters(settings, left, asked, topic, states=states, timeout_s=timeout_s)
    shown: list[tuple[int | None, Mapping[str, Any]]] = [*replicating]
    if found is not None:
        shown += [(None, each.as_json()) for each in found.flows]
    shown = _add_operator_actions(settings, shown, timeout_s=min(timeout_s, EXTRA_TIMEOUT_S))
    if as_json:
        flows_json = [{"process": pid, **flow} for pid, flow in shown]
        answer = {"version": JSON_VERSION, "topic": topic, "flows": flows_json}
        click.echo(json.dumps(answer, indent=2))
    code = _exit_code(found, replicates=bool(replicating))
    if failed and code == exit_codes.BAD_INPUT:
        code = exit_codes.UNKNOWN
    several = len({pid for pid, _ in replicating}) > 1
    for pid, flow in shown:
        for line in flow["lines"] if not as_json else ():
            prefix = f"{pid}: " if several and pid is not None else ""
            terminal.print_line(f"{prefix}{line}", err=code != exit_codes.DONE)
    for line in failed:
        terminal.print_line(line, err=True)
    if found is not None and not as_json and code == exit_codes.DONE:
        terminal.print_line(f"{note}; the clusters were asked")
    return code


_ProcessFlow = tuple[int, Mapping[str, Any]]
"""A process and, as JSON, the `why.InFlow` that it tells."""


def _query_processes(
    file: pathlib.Path, topic: str, *, timeout_s: float
) -> tuple[list[_ProcessFlow], list[str], str]:
    """What processes here say of each flow, what they could not answer, and why the clusters have
    to be asked for what is missing."""
    question = ExplainRequest(topic=topic)
    try:
        answers = process_socket.query_processes(
            file, question, where=process_socket.find_socket_folder(), timeout_s=timeout_s
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
    return found, failed, "no process here replicates it"


def _may_concern(flow: Any, topic: str) -> bool:
    from mm2.status import topic_explanation

    return topic_explanation.may_mirror_topic(flow, topic)


def _query_clusters(
    settings: Mm2Settings,
    left: Sequence[Flow],
    asked: Sequence[Flow],
    topic: str,
    *,
    states: Mapping[str, Mapping[str, Any]],
    timeout_s: float,
) -> Any:
    """A `why.Found` of the flows that are `left`. In which state they are, the process that runs
    one knows best: `states`, by flow. Only what may have something of the topic is
    asked how far it is; whether a topic is there the sources of all are."""
    from mm2.cli import library_logs
    from mm2.status import topic_explanation
    from mm2.status.topic_explanation import TopicExplanation

    with library_logs.redirect_library_logs():
        look = flow_reports.make_cluster_collector(settings, timeout_s=timeout_s)
        reports = [_with_process_state(look(flow), states.get(flow.name)) for flow in asked]
        existing = topic_explanation.find_existing_topics(
            settings,
            [flow for flow in left if flow not in asked],
            topic,
            clock=SystemClock(),
            timeout_s=min(timeout_s, EXTRA_TIMEOUT_S),
        )
    found = topic_explanation.explain_topic(settings, (), topic, reports=reports, existing=existing)
    names = {each.name for each in left}
    return TopicExplanation(topic=topic, flows=tuple(e for e in found.flows if e.flow in names))


def _with_process_state(report: Any, told: Mapping[str, Any] | None) -> Any:
    """The clusters' report, in the state that the process tells."""
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
    """With who paused or stopped it, of what is; only then are targets asked for it, all within
    the time."""
    from mm2.cli import library_logs
    from mm2.status import status_tables, topic_explanation

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
            left_s = end.left_s(clock.now_s())
            with library_logs.redirect_library_logs():
                actions = topic_explanation.read_override_actions(
                    settings, known, flow, clock=clock, timeout_s=left_s
                )
        lines = [
            f"{flow['flow']}: {status_tables.format_utc(each.at_ms)} {each.detail}"
            for each in actions
        ]
        as_json = [
            {"at_ms": each.at_ms, "topic": each.topic or None, "detail": each.detail}
            for each in actions
        ]
        more = {"operator_actions": as_json, "lines": [*flow["lines"], *lines]}
        told.append((pid, {**flow, **more}))
    return told


def _exit_code(found: Any, *, replicates: bool) -> int:
    """`found`: what the clusters tell, None where they were not asked."""
    if replicates or found.known:
        return exit_codes.DONE
    if not found.trouble:
        return exit_codes.BAD_INPUT
    silent = all(each.trouble for each in found.flows)
    return exit_codes.UNREACHABLE if silent else exit_codes.UNKNOWN
