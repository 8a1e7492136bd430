"""`mm2 failback`: going back to the cluster that was left, and what it holds that never left it."""

from __future__ import annotations

import pathlib
from typing import Any

import click

from mm2.app.cli import moves


@click.command("failback")
@moves.options
@click.option(
    "--export",
    type=click.Path(path_type=pathlib.Path, dir_okay=False),
    help="Write the records that never left the cluster gone back to into this file first.",
)
def command(**given: Any) -> int:
    """Say what going back to a cluster that was left would cost, and do it.

    The flow that leads back has to be in the file, and to run. First the records are counted that
    the cluster gone back to holds and the other one never got; --export writes them to a file, as
    JSON lines, before anything is touched. Then it is a planned move: both clusters serve,
    producers and consumers are stopped, both ends agree, groups move.

    \b
    Examples:
      mm2 failback --from west --to east
      mm2 failback --from west --to east --export tail.jsonl --execute
    """
    return moves.run(moves.Order(**given, back=True))
