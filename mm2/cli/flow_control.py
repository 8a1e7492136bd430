"""`mm2 pause`, `resume`, `throttle`, `restart`: change a running flow through its REST API.

Pauses and rate limits are stored in the flow's Connect group and survive restarts.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from connect_runtime.config import config_errors
from mm2 import exit_codes, text_format
from mm2.cli import options, terminal_output
from mm2.clusters.flow_rest_client import FlowRestClient, NoSuchTopicError
from mm2.config import config_value_types
from mm2.status import process_socket
from mm2.status.process_socket import ProcessSocketError, RestApiRequest
from mm2.suggested_commands import OperatorCommands

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_RATE = "default"
JSON_VERSION = 1
_REQUEST_TIMEOUT_S = 15.0
_flow_argument = click.argument("flow", metavar="FLOW")
_file_option = options.config_option("Configuration file of the running process.")


def _build_topic_option(text: str) -> Callable[[F], F]:
    return click.option("--topic", metavar="T", help=text)


@click.command("pause")
@_flow_argument
@_build_topic_option("Only this source topic.")
@_file_option
@options.json_option
def pause_command(*, flow: str, topic: str | None, file: pathlib.Path, as_json: bool) -> int:
    """Pause replication of the running FLOW, or of one topic.

    The pause remains in effect across restarts until mm2 resume. Checkpoints and heartbeats are
    still written.

    \b
    Examples:
      mm2 pause 'east->west'
      mm2 pause 'east->west' --topic orders
    """
    with connect_to_flow(file, flow) as found:
        if topic is None:
            found.pause()
        else:
            found.pause_topic(topic)
    undo = OperatorCommands(file=str(file)).build_resume_command(flow, topic)
    text = f"paused until resumed, even across restarts; to resume: {undo}"
    _print_text_or_json(flow, topic, text, {"paused": True}, as_json=as_json)
    return exit_codes.DONE


@click.command("resume")
@_flow_argument
@_build_topic_option("Only this source topic.")
@_file_option
@options.json_option
def resume_command(*, flow: str, topic: str | None, file: pathlib.Path, as_json: bool) -> int:
    """Resume the running FLOW, or one of its topics, after mm2 pause or mm2 failover.

    Replication continues at the offset where it was paused. For a halted partition, see mm2 why
    TOPIC.

    \b
    Examples:
      mm2 resume 'east->west'
      mm2 resume 'east->west' --topic orders
    """
    with connect_to_flow(file, flow) as found:
        if topic is None:
            found.resume()
        else:
            found.resume_topic(topic)
    text = "resumed; replication continues where it was paused"
    _print_text_or_json(flow, topic, text, {"paused": False}, as_json=as_json)
    return exit_codes.DONE


@click.command("throttle")
@_flow_argument
@click.argument("rate", metavar="RATE")
@_build_topic_option("Only this source topic.")
@_file_option
@options.json_option
def throttle_command(
    *, flow: str, rate: str, topic: str | None, file: pathlib.Path, as_json: bool
) -> int:
    """Limit the running FLOW, or one of its topics, to RATE bytes per second.

    RATE is a number with a unit such as 20MB, `none` for no limit, or `default` for the limit of
    the configuration. The limit remains in effect across restarts until it is changed.

    \b
    Examples:
      mm2 throttle 'east->west' 20MB
      mm2 throttle 'east->west' 1MB --topic orders
      mm2 throttle 'east->west' default
    """
    limit = None if rate.strip().lower() == DEFAULT_RATE else rate.strip()
    bytes_s = None
    if limit is not None:
        try:
            bytes_s = config_value_types.parse_throttle(limit)
        except ValueError:
            raise click.BadParameter(
                f"{rate!r}; allowed: {config_value_types.LIMIT_ALLOWED}, or {DEFAULT_RATE}",
                param_hint="RATE",
            ) from None
    with connect_to_flow(file, flow) as found:
        found.set_throttle(limit, topic=topic)
    if bytes_s is None:
        text = "throttled to the limit set in the configuration"
    elif bytes_s == 0:
        text = "not throttled, until changed"
    else:
        text = f"throttled to {text_format.format_rate(bytes_s)} until changed"
    detail = {"throttle_bytes_s": bytes_s or None, "from_configuration": limit is None}
    _print_text_or_json(flow, topic, text, detail, as_json=as_json)
    return exit_codes.DONE


@click.command("restart")
@_flow_argument
@_build_topic_option("Only the tasks that replicate this source topic.")
@_file_option
@options.json_option
def restart_command(*, flow: str, topic: str | None, file: pathlib.Path, as_json: bool) -> int:
    """Restart the connectors and tasks of the running FLOW on all nodes.

    No record is lost or duplicated.

    \b
    Examples:
      mm2 restart 'east->west'
      mm2 restart 'east->west' --topic orders
    """
    detail: dict[str, Any]
    with connect_to_flow(file, flow) as found:
        if topic is None:
            names = found.restart()
            text = f"restarting {', '.join(names)} and all their tasks"
            detail = {"connectors": names}
        else:
            tasks = found.restart_topic(topic)
            text = f"restarting {', '.join(f'task {each}' for each in tasks)}"
            detail = {"tasks": tasks}
    _print_text_or_json(flow, topic, text, detail, as_json=as_json)
    return exit_codes.DONE


@contextlib.contextmanager
def connect_to_flow(file: pathlib.Path, flow: str) -> Iterator[FlowRestClient]:
    """Return a REST client for a flow of the local process that runs this configuration file.

    Raises `ProcessSocketError` if no process responds, and `click.UsageError` for an unknown flow
    or topic.
    """
    answers = process_socket.query_processes(
        file,
        RestApiRequest(),
        folder=process_socket.find_socket_directory(),
        timeout_s=_REQUEST_TIMEOUT_S,
    )
    found = [each.detail for each in answers.values() if each.code == exit_codes.DONE]
    known = {name: each for each in found for name in each["flows"]}
    if not known:
        told = "; ".join(line for each in answers.values() for line in each.lines)
        raise ProcessSocketError(f"the process that runs {file} did not respond: {told}")
    if flow not in known:
        nearest = config_errors.find_nearest_name(flow, known)
        meant = "" if nearest is None else f"; did you mean '{nearest}'?"
        text = f"{file} runs no flow '{flow}'; flows: {', '.join(sorted(known))}{meant}"
        raise click.BadParameter(text, param_hint="FLOW")
    api = known[flow]
    asked = FlowRestClient(
        flow,
        url=f"{api['url']}{api['flows'][flow]}",
        user=api["user"],
        password=api["password"],
    )
    try:
        yield asked
    except NoSuchTopicError as error:
        raise click.BadParameter(str(error), param_hint="--topic") from error


def _print_text_or_json(
    flow: str, topic: str | None, text: str, detail: dict[str, Any], *, as_json: bool
) -> None:
    """Print `text`, or the JSON object `detail` if the output format is JSON."""
    if as_json:
        found = {"version": JSON_VERSION, "flow": flow, "topic": topic, **detail}
        click.echo(json.dumps(found, indent=2))
    else:
        terminal_output.print_line(f"{flow if topic is None else f'{flow}, topic {topic}'}: {text}")
