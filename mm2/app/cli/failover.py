"""`mm2 failover`: what moving to the other cluster would cost, and doing it."""

from __future__ import annotations

from typing import Any

import click

from mm2.app.cli import moves


@click.command("failover")
@moves.options
@click.option("--planned", is_flag=True, help="Both clusters serve, and nothing may be lost.")
@click.option(
    "--origin-lost", "lost", is_flag=True, help="Do not ask the cluster that is left anything."
)
def command(**given: Any) -> int:
    """Say what moving consumer groups from one cluster to the other would cost now.

    Nothing is changed without --execute. With it: the flow is stopped and its writers are fenced,
    the groups' positions are written on the other cluster and read back. Every step is noted in a
    journal, so that --resume goes on where a crash, or a step that failed, has left it. The exit
    code is 0 when the verdict is GO, also at a cost, and 1 when it is NO-GO or a step failed.

    \b
    COMMITTED, GOES-ON-AT, NOW-AT  a group's offset here, its place there, where it stands there
    READ-AGAIN                     records that it reads twice, at most
    MISSING                        records that it has read and that are not there, at most
    UNREAD                         offsets from its place there to the end: records, and markers

    \b
    Examples:
      mm2 failover --from east --to west
      mm2 failover --from east --to west --execute
      mm2 failover --from east --to west --planned --execute
      mm2 failover --from east --to west --resume --journal FILE
    """
    return moves.run(moves.Order(**given))
