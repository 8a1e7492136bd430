"""`mm2 offsets skip`: skip a record of the offset map that cannot be read."""

from __future__ import annotations

import json
import os
import pathlib

import click

from connect_runtime.system import clock as system_clock
from mm2.app import exits, terminal
from mm2.app.cli import config_file, flow_names, topic, usual
from mm2.app.settings import load
from mm2.core import naming


@click.command("skip")
@click.argument("flow", metavar="FLOW")
@click.option(
    "--offset",
    required=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="Offset of the record in the flow's topic mm2-offset-map.<source>.internal.",
)
@click.option(
    "--from",
    "start",
    metavar="earliest|latest|TIMESTAMP|offset:N",
    help="Where the partition begins again; required for the record of an era, and only for that.",
)
@config_file.option("Where the flow is configured.")
@usual.as_json
def command(*, flow: str, offset: int, start: str | None, file: pathlib.Path, as_json: bool) -> int:
    """Skip a record of a flow's offset map that cannot be read.

    Resolves the halt [offset-map-unreadable] if another program wrote the record. If a newer
    release of mm2 wrote it, run that release instead: skipping discards what the record says.

    The command stores a receipt that names the record, then replaces the record with a tombstone.
    Halted partitions of a running flow resume at their next retry: within 15 seconds at first,
    within 10 minutes if they have been halted for long. A readable record is never skipped.

    Without the record of an era, its partition cannot resume where it was: it begins again at the
    position --from, as with `mm2 topic reset`, and another receipt says so. The record of a
    producer id is not deleted but written again, so that records it wrote still count as the
    flow's own.

    \b
    Examples:
      mm2 offsets skip 'east->west' --offset 1204
      mm2 offsets skip 'east->west' --offset 1204 --from earliest
    """
    position = None if start is None else topic.parse_position(start)
    settings = load.load(file, environment=os.environ)
    chosen = flow_names.find(settings, flow, hint="FLOW")
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.app import connections, noise
    from mm2.app.offsets import map_record_skip

    clock = system_clock.SystemClock()
    with noise.to_file():
        client_id = f"mm2-{chosen.name}-skip"
        ledger = connections.ledger(settings, chosen, client_id=client_id, clock=clock)
        try:
            found = map_record_skip.skip(ledger, chosen, offset, position=position, clock=clock)
        except map_record_skip.NothingToSkipError as error:
            raise click.UsageError(str(error)) from error
        finally:
            ledger.close(1.0)
    map_topic = naming.map_topic(chosen.source)
    named = found.partition
    concerned = "all partitions" if named is None else f"all partitions of topic {named.topic}"
    again = "" if position is None else f"; {named} begins again from {position}"
    if as_json:
        said = {
            "flow": chosen.name,
            "topic": map_topic,
            "offset": offset,
            "reason": found.why,
            "partition": None if named is None else str(named),
            "from": position,
        }
        click.echo(json.dumps(said, indent=2))
    else:
        terminal.print_line(
            f"{map_topic} of cluster {chosen.target}: skipped the record at offset {offset} "
            f"({found.why}), which halted {concerned} of {chosen.name}{again}; mm2 receipts lists "
            "it"
        )
    return exits.DONE
