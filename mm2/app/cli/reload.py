"""`mm2 reload`: a running `mm2 run` reads its file again."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import click

from mm2.app import exits, run_socket, terminal
from mm2.app.cli import config_file, usual

_JSON_VERSION = 1


@click.command("reload")
@config_file.argument
@click.option("--dry-run", is_flag=True, help="Only say what would change.")
@usual.as_json
@usual.timeout(60.0, "How long to wait for the answer.")
def command(*, file: pathlib.Path, dry_run: bool, as_json: bool, timeout_s: float) -> int:
    """Let the process that runs FILE (default: clusters.yaml) read it again.

    Prints what differs. Flows whose settings are the same are not touched; a wrong file changes
    nothing. SIGHUP to the process does the same.

    Where several nodes share a flow, one of them leads, and writes what its file says of topics and
    the like: the others say which one, if their file says otherwise.

    \b
    Examples:
      mm2 reload clusters.yaml
      mm2 reload clusters.yaml --dry-run
      kill -HUP 4711                the id of a process of mm2 run
    """
    try:
        answers = run_socket.ask(
            file,
            run_socket.Question(dry_run=dry_run),
            where=run_socket.folder(),
            timeout_s=timeout_s,
        )
    except run_socket.RunSocketError as error:
        if as_json:
            click.echo(json.dumps({**_head(file), "error": str(error)}, indent=2))
        else:
            terminal.print_line(f"mm2: {error}", err=True)
        return exits.UNREACHABLE
    if as_json:
        processes = [{"pid": pid, **answer.detail} for pid, answer in answers.items()]
        click.echo(json.dumps({**_head(file), "processes": processes}, indent=2))
        return exits.worst([answer.code for answer in answers.values()])
    for pid, answer in answers.items():
        for line in answer.lines:
            told = f"{pid}: {line}" if len(answers) > 1 else line
            terminal.print_line(told, err=answer.code != 0)
    return exits.worst([answer.code for answer in answers.values()])


def _head(file: pathlib.Path) -> dict[str, Any]:
    return {"version": _JSON_VERSION, "file": str(file)}
