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
    help="First write the records that never left the cluster gone back to into this new file, "
    "as JSON lines. Without --execute, too, and nothing else is done then.",
)
def command(**given: Any) -> int:
    """Say what going back to a cluster that was left would cost, and do it.

    --from is where applications work now, --to the cluster that was left before. The flow FROM->TO
    has to be in the file, and to run: it brings back what was written meanwhile. First the records
    are counted that the cluster gone back to holds and the other one never got: groups that go back
    read them now. Then it is a planned move: both clusters serve, producers and consumers are
    stopped, both ends agree, groups move. Nothing is changed without --execute. Codes, columns and
    the confirmation on a terminal are those of mm2 failover.

    \b
    Examples:
      mm2 failback --from west --to east
      mm2 failback --from west --to east --export left.jsonl
      mm2 failback --from west --to east --execute
      mm2 failback --from west --to east --resume --journal FILE
    """
    return moves.run(moves.Order(**given, back=True))
