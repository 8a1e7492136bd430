"""`mm2 pause`, `mm2 throttle`, `mm2 restart`: what operators do while flows run."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from connect_runtime.app.settings import problems
from mm2.app import exits, flow_api, run_socket
from mm2.app.cli import config_file
from mm2.core.configs import own_values

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT = "default"
_ASK_S = 15.0
_flow = click.argument("flow", metavar="FLOW")
_file = config_file.option("The file that the process runs.")


def _topic(text: str) -> Callable[[F], F]:
    return click.option("--topic", metavar="T", help=text)


@click.command("pause")
@_flow
@_topic("Only this topic of the source.")
@_file
def pause(*, flow: str, topic: str | None, file: pathlib.Path) -> int:
    """Let the running FLOW copy nothing for now, or nothing of one topic.

    It stays so, also when nodes are started again, until mm2 resume. Checkpoints and heartbeats go
    on.

    \b
    Examples:
      mm2 pause 'east->west'
      mm2 pause 'east->west' --topic orders
    """
    with reached(file, flow) as found:
        if topic is None:
            found.pause()
        else:
            found.pause_topic(topic)
    click.echo(f"{_named(flow, topic)} is paused")
    return exits.DONE


def resume(*, flow: str, topic: str | None, file: pathlib.Path) -> int:
    """The way back from `pause`."""
    with reached(file, flow) as found:
        if topic is None:
            found.resume()
        else:
            found.resume_topic(topic)
    click.echo(f"{_named(flow, topic)} goes on")
    return exits.DONE


@click.command("throttle")
@_flow
@click.argument("rate", metavar="RATE")
@_topic("Only this topic of the source.")
@_file
def throttle(*, flow: str, rate: str, topic: str | None, file: pathlib.Path) -> int:
    """Let the running FLOW, or one of its topics, copy at most RATE bytes per second.

    RATE is 20MB and the like, none for no limit, or default for what the file says. It stays so,
    also when nodes are started again, until it is set anew.

    \b
    Examples:
      mm2 throttle 'east->west' 20MB
      mm2 throttle 'east->west' 1MB --topic orders
      mm2 throttle 'east->west' default
    """
    limit = None if rate.strip().lower() == DEFAULT else rate.strip()
    if limit is not None:
        try:
            own_values.read_limit(limit)
        except ValueError:
            raise click.BadParameter(
                f"{rate!r}; allowed: {own_values.LIMIT_ALLOWED}, or {DEFAULT}", param_hint="RATE"
            ) from None
    with reached(file, flow) as found:
        found.throttle(limit, topic=topic)
    click.echo(f"{_named(flow, topic)}: {'as the file says' if limit is None else limit}")
    return exits.DONE


@click.command("restart")
@_flow
@_topic("Only the tasks that copy this topic of the source.")
@_file
def restart(*, flow: str, topic: str | None, file: pathlib.Path) -> int:
    """Stop and start the connectors and tasks of the running FLOW, on whatever node they run.

    Nothing is lost and nothing is copied twice.

    \b
    Examples:
      mm2 restart 'east->west'
      mm2 restart 'east->west' --topic orders
    """
    with reached(file, flow) as found:
        if topic is None:
            what = ", ".join(found.restart())
        else:
            what = ", ".join(f"task {each}" for each in found.restart_topic(topic))
    click.echo(f"{flow}: restarted {what}")
    return exits.DONE


@contextlib.contextmanager
def reached(file: pathlib.Path, flow: str) -> Iterator[flow_api.FlowApi]:
    """The flow in a process that runs the file. Raises `RunSocketError`, and `click.UsageError`
    where there is no such flow or topic."""
    answers = run_socket.ask(
        file, run_socket.ApiQuestion(), where=run_socket.folder(), timeout_s=_ASK_S
    )
    found = [each.detail for each in answers.values() if each.code == exits.DONE]
    known = {name: each for each in found for name in each["flows"]}
    if not known:
        told = "; ".join(line for each in answers.values() for line in each.lines)
        raise run_socket.RunSocketError(f"the process that runs {file} cannot be asked: {told}")
    if flow not in known:
        nearest = problems.nearest(flow, known)
        meant = "" if nearest is None else f"; did you mean '{nearest}'?"
        text = f"{file} runs no flow '{flow}'; flows: {', '.join(sorted(known))}{meant}"
        raise click.BadParameter(text, param_hint="FLOW")
    api = known[flow]
    asked = flow_api.FlowApi(
        flow,
        url=f"{api['url']}{api['flows'][flow]}",
        user=api["user"],
        password=api["password"],
    )
    try:
        yield asked
    except flow_api.NoSuchTopicError as error:
        raise click.BadParameter(str(error), param_hint="--topic") from error


def _named(flow: str, topic: str | None) -> str:
    return flow if topic is None else f"topic {topic} of {flow}"
