"""`mm2 why`: how a topic is replicated, or why not, and how far."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import click

from connect_runtime.base import deadline
from connect_runtime.system import clock as system_clock
from mm2.app import exits, run_socket, terminal
from mm2.app.cli import config_file, flow_options, usual
from mm2.app.settings import load
from mm2.app.settings import settings as app_settings
from mm2.core import flows

JSON_VERSION = 1
EXTRA_S = 5.0
"""Whether a topic is there that is not replicated anyway, and who paused it, are worth no longer a
wait."""


@click.command("why")
@click.argument("words", nargs=-1, metavar="[FILE] TOPIC")
@config_file.option_beside_words
@usual.as_json
@usual.timeout(15.0, "How long to wait for an answer, of a process or a flow's clusters.")
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
    file = config_file.choose(pathlib.Path(words[0]) if len(words) == 2 else None, config)
    topic = words[-1]
    settings = load.load(file, environment=os.environ)
    told, failed, note = _of_processes(file, topic, timeout_s=timeout_s)
    replicating = [(pid, flow) for pid, flow in told if flow["partitions"]]
    known = {flow["flow"] for _, flow in replicating}
    left = [each for each in settings.flows if each.name not in known]
    asked = [each for each in left if _concerns(each, topic)]
    found = None
    if asked or not replicating:
        states = {flow["flow"]: flow for _, flow in told if flow["state"]}
        found = _of_clusters(settings, left, asked, topic, states=states, timeout_s=timeout_s)
    shown: list[tuple[int | None, Mapping[str, Any]]] = [*replicating]
    if found is not None:
        shown += [(None, each.as_json()) for each in found.flows]
    shown = _with_actions(settings, shown, timeout_s=min(timeout_s, EXTRA_S))
    if as_json:
        flows_json = [{"process": pid, **flow} for pid, flow in shown]
        answer = {"version": JSON_VERSION, "topic": topic, "flows": flows_json}
        click.echo(json.dumps(answer, indent=2))
    code = _exit_code(found, replicates=bool(replicating))
    if failed and code == exits.BAD_INPUT:
        code = exits.UNKNOWN
    several = len({pid for pid, _ in replicating}) > 1
    for pid, flow in shown:
        for line in flow["lines"] if not as_json else ():
            prefix = f"{pid}: " if several and pid is not None else ""
            terminal.print_line(f"{prefix}{line}", err=code != exits.DONE)
    for line in failed:
        terminal.print_line(line, err=True)
    if found is not None and not as_json and code == exits.DONE:
        terminal.print_line(f"{note}; the clusters were asked")
    return code


_Flow = tuple[int, Mapping[str, Any]]
"""A process and, as JSON, the `why.InFlow` that it tells."""


def _of_processes(
    file: pathlib.Path, topic: str, *, timeout_s: float
) -> tuple[list[_Flow], list[str], str]:
    """What processes here say of each flow, what they could not answer, and why the clusters have
    to be asked for what is missing."""
    question = run_socket.WhyQuestion(topic=topic)
    try:
        answers = run_socket.ask(file, question, where=run_socket.folder(), timeout_s=timeout_s)
    except run_socket.RunSocketError as error:
        return [], [], str(error).partition(":")[0]
    found: list[_Flow] = []
    failed: list[str] = []
    for pid, answer in answers.items():
        if answer.code not in (exits.DONE, exits.BAD_INPUT):
            failed += [f"process {pid}: {line}" for line in answer.lines]
        flows = answer.detail.get("flows", ())
        found += [(pid, flow) for flow in flows]
    return found, failed, "no process here replicates it"


def _concerns(flow: Any, topic: str) -> bool:
    from mm2.app import why

    return why.concerns(flow, topic)


def _of_clusters(
    settings: app_settings.Settings,
    left: Sequence[flows.Flow],
    asked: Sequence[flows.Flow],
    topic: str,
    *,
    states: Mapping[str, Mapping[str, Any]],
    timeout_s: float,
) -> Any:
    """A `why.Found` of the flows that are `left`. In which state they are, the process that runs
    one knows best: `states`, by flow. Only what may have something of the topic is
    asked how far it is; whether a topic is there the sources of all are."""
    from mm2.app import noise, why

    with noise.to_file():
        look = flow_options.clusters_of(settings, timeout_s=timeout_s)
        reports = [_in_state(look(flow), states.get(flow.name)) for flow in asked]
        existing = why.existing(
            settings,
            [flow for flow in left if flow not in asked],
            topic,
            clock=system_clock.SystemClock(),
            timeout_s=min(timeout_s, EXTRA_S),
        )
    found = why.look(settings, (), topic, reports=reports, existing=existing)
    names = {each.name for each in left}
    return why.Found(topic=topic, flows=tuple(e for e in found.flows if e.flow in names))


def _in_state(report: Any, told: Mapping[str, Any] | None) -> Any:
    """The clusters' report, in the state that the process tells."""
    from mm2.app.reports import flow_report

    if told is None:
        return report
    if report.state is flow_report.State.UNKNOWN:
        return dataclasses.replace(report, reason=told["unhealthy"] or report.reason)
    state = flow_report.State(told["state"])
    return dataclasses.replace(report, state=state, reason=told["reason"])


def _with_actions(
    settings: app_settings.Settings,
    shown: Sequence[tuple[int | None, Mapping[str, Any]]],
    *,
    timeout_s: float,
) -> list[tuple[int | None, Mapping[str, Any]]]:
    """With who paused or stopped it, of what is; only then are targets asked for it, all within
    the time."""
    from mm2.app import noise, why
    from mm2.app.reports import show

    clock = system_clock.SystemClock()
    end = deadline.Deadline.after(timeout_s, now_s=clock.now_s())
    by_name = {each.name: each for each in settings.flows}
    told: list[tuple[int | None, Mapping[str, Any]]] = []
    for pid, flow in shown:
        actions: list[Any] = []
        known = by_name.get(flow["flow"])
        if known is not None and flow["partitions"] and why.is_paused_or_stopped(flow):
            left_s = end.left_s(clock.now_s())
            with noise.to_file():
                actions = why.pause_or_stop_actions(
                    settings, known, flow, clock=clock, timeout_s=left_s
                )
        lines = [f"{flow['flow']}: {show.moment(each.at_ms)} {each.detail}" for each in actions]
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
        return exits.DONE
    if not found.trouble:
        return exits.BAD_INPUT
    silent = all(each.trouble for each in found.flows)
    return exits.UNREACHABLE if silent else exits.UNKNOWN
