"""`mm2 why`: how a topic is copied, or why not, and how far."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import click

from mm2.app import exits, run_socket
from mm2.app.cli import config_file, flow_options, usual
from mm2.app.settings import load

JSON_VERSION = 1


@click.command("why")
@click.argument("words", nargs=-1, metavar="[FILE] TOPIC")
@config_file.option_beside_words
@usual.as_json
@usual.timeout(15.0, "How long to wait for an answer, of a process or a flow's clusters.")
def command(
    *, words: tuple[str, ...], config: pathlib.Path | None, as_json: bool, timeout_s: float
) -> int:
    """Say how TOPIC is copied by the process that runs FILE (default: clusters.yaml), and why so.

    TOPIC is a topic of a source, or its mirror. For each flow and partition: passed through as it
    is, opened (and why), in transactions, at least once, waiting, or stopped, with the way on; by
    which rule, and how far. Of a topic that is not mirrored: why not. Where no process runs FILE on
    this machine, or none knows TOPIC, both clusters are asked: they tell how far it is copied.

    \b
    Examples:
      mm2 why orders
      mm2 why clusters.yaml east.orders --json
    """
    if not 1 <= len(words) <= 2:
        raise click.UsageError("say which topic: mm2 why [FILE] TOPIC")
    file = config_file.choose(pathlib.Path(words[0]) if len(words) == 2 else None, config)
    topic = words[-1]
    answers, note = _of_processes(file, topic, timeout_s=timeout_s)
    # Processes may share the flows of a file: one that knows the topic is enough.
    knowing = {pid: each for pid, each in answers.items() if each.code == exits.DONE}
    if not knowing:
        found = _of_clusters(file, topic, timeout_s=timeout_s)
        if found.known or not answers:
            return _tell_clusters(found, topic, note=note, as_json=as_json)
    shown = knowing or answers
    if as_json:
        told = ((pid, each) for pid, answer in shown.items() for each in _flows(answer))
        _print_json(topic, told)
    for pid, answer in shown.items():
        failed = answer.code != exits.DONE
        for line in answer.lines if failed or not as_json else ():
            click.echo(f"{pid}: {line}" if len(shown) > 1 else line, err=failed)
    return max(answer.code for answer in shown.values())


def _of_processes(
    file: pathlib.Path, topic: str, *, timeout_s: float
) -> tuple[Mapping[int, run_socket.Answer], str]:
    """Without any, why there are none."""
    question = run_socket.WhyQuestion(topic=topic)
    try:
        found = run_socket.ask(file, question, where=run_socket.folder(), timeout_s=timeout_s)
    except run_socket.RunSocketError as error:
        return {}, str(error).partition(":")[0]
    return found, "no process here knows it"


def _of_clusters(file: pathlib.Path, topic: str, *, timeout_s: float) -> Any:
    """A `why.Found`. Only flows that may have something of the topic are looked at."""
    settings = load.load(file, environment=os.environ)
    from mm2.app import noise, why

    with noise.to_file() as log_file:
        look = flow_options.clusters_of(settings, timeout_s=timeout_s)
        reports = [look(flow) for flow in settings.flows if why.concerns(flow, topic)]
        log_file.keep = False
    return why.look(settings, (), topic, reports=reports)


def _tell_clusters(found: Any, topic: str, *, note: str, as_json: bool) -> int:
    code = exits.DONE if found.known else exits.BAD_INPUT
    if found.trouble and not found.known:
        silent = all(each.trouble for each in found.flows)
        code = exits.UNREACHABLE if silent else exits.UNKNOWN
    if as_json:
        _print_json(topic, ((None, each) for each in found.as_json()["flows"]))
    failed = code != exits.DONE
    for line in found.lines() if failed or not as_json else ():
        click.echo(line, err=failed)
    if not failed and not as_json:
        click.echo(f"{note}; both clusters were asked")
    return code


def _flows(answer: run_socket.Answer) -> Iterable[Mapping[str, Any]]:
    found: Iterable[Mapping[str, Any]] = answer.detail.get("flows", ())
    return found


def _print_json(topic: str, flows: Iterable[tuple[int | None, Mapping[str, Any]]]) -> None:
    """`process` is null where both clusters were asked."""
    told = [{"process": pid, **flow} for pid, flow in flows]
    found = {"version": JSON_VERSION, "topic": topic, "flows": told}
    click.echo(json.dumps(found, indent=2))
