"""`mm2 failover`: what moving to the other cluster would cost, and doing it."""

from __future__ import annotations

from typing import Any

import click

from mm2.app.cli import moves


@click.command("failover")
@moves.options
@click.option(
    "--planned",
    is_flag=True,
    help="Both clusters serve and nothing may be lost: wait until groups have no members and all "
    "is copied.",
)
@click.option(
    "--origin-lost",
    "lost",
    is_flag=True,
    help="The cluster that is left is dead: ask it nothing, and go by the last checkpoints.",
)
def command(**given: Any) -> int:
    """Say what moving consumer groups from one cluster to the other would cost now.

    Nothing is changed without --execute: it prints how far the mirror is behind, where each group
    goes on, what that costs, the steps, and a verdict: GO, also "AT A COST", or NO-GO with what
    forbids it. With --execute the flow is stopped for good and its writers are fenced, the groups'
    positions are written on the other cluster and read back. Applications are yours to stop and to
    start, or your hooks'. Every step is noted in a journal, so that --resume goes on where a crash,
    or a step that failed, has left it. Only consumer groups are moved: share groups (KIP-932) and
    streams groups (KIP-1071) are listed, and the verdict is NO-GO until --accept names them.

    On a terminal --execute asks for the name of the flow before anything is changed; --yes skips
    that, and scripts, hooks and --resume are never asked.

    Without --planned the cluster that is left counts as lost, or as good as: what it holds and the
    mirror lacks is not waited for, but counted.

    \b
    COMMITTED, GOES-ON-AT, NOW-AT  a group's offset here, its place there, where it stands there
    BASIS                          what COMMITTED is: committed now, or a checkpoint with its age
    READ-AGAIN                     records that it reads twice, at most: "0 to N" from a
                                   checkpoint on, "unknown" where no bound can be proven
    MISSING                        records that it has read and that are not there, at most;
                                   "unknown" or ">= N" from a checkpoint on
    UNREAD                         offsets from its place there to the end: records, and markers

    \b
    Examples:
      mm2 failover --from east --to west
      mm2 failover --from east --to west --execute
      mm2 failover --from east --to west --origin-lost --execute
      mm2 failover --from east --to west --planned --execute
      mm2 failover --from east --to west --accept group-active:billing --execute
      mm2 failover --from east --to west --resume --journal FILE
    """
    return moves.run(moves.Order(**given))
