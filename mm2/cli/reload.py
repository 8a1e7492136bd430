"""`mm2 reload`: applies a changed configuration to a running `mm2 run`."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import click

from mm2 import exit_codes
from mm2.cli import options, terminal_output
from mm2.status import process_socket
from mm2.status.process_socket import ProcessSocketError, ReloadRequest

_JSON_VERSION = 1


@click.command("reload")
@options.config_argument
@click.option("--dry-run", is_flag=True, help="Print what would change without applying it.")
@options.json_option
@options.timeout_option(60.0, "How long to wait for the process to respond.")
def reload_command(*, file: pathlib.Path, dry_run: bool, as_json: bool, timeout_s: float) -> int:
    """Make the running mm2 read FILE (default: clusters.yaml) again and apply the changes.

    Prints the changes. Flows with unchanged settings keep running. If the file is invalid,
    nothing changes. Sending SIGHUP to the process does the same.

    If several nodes share a flow, the leader of the flow's group applies the configuration in its
    own file. Other nodes whose files differ report the differing keys.

    \b
    Examples:
      mm2 reload clusters.yaml
      mm2 reload clusters.yaml --dry-run
      kill -HUP 4711                the process id of mm2 run
    """
    try:
        answers = process_socket.query_processes(
            file,
            ReloadRequest(dry_run=dry_run),
            folder=process_socket.find_socket_directory(),
            timeout_s=timeout_s,
        )
    except ProcessSocketError as error:
        if as_json:
            click.echo(
                json.dumps({**_build_common_json_fields(file), "error": str(error)}, indent=2)
            )
        else:
            terminal_output.print_line(f"mm2: {error}", err=True)
        return exit_codes.UNREACHABLE
    if as_json:
        processes = [{"pid": pid, **answer.detail} for pid, answer in answers.items()]
        click.echo(
            json.dumps({**_build_common_json_fields(file), "processes": processes}, indent=2)
        )
        return exit_codes.combine_exit_codes([answer.code for answer in answers.values()])
    for pid, answer in answers.items():
        for line in answer.lines:
            told = f"{pid}: {line}" if len(answers) > 1 else line
            terminal_output.print_line(told, err=answer.code != 0)
    return exit_codes.combine_exit_codes([answer.code for answer in answers.values()])


def _build_common_json_fields(file: pathlib.Path) -> dict[str, Any]:
    return {"version": _JSON_VERSION, "file": str(file)}
