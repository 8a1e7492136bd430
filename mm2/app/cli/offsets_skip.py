"""`mm2 offsets skip`: skip a record of the offset map that cannot be read."""

from __future__ import annotations

import json
import os
import pathlib

import click

from connect_runtime.system import clock as system_clock
from mm2.app import exits, terminal
from mm2.app.cli import config_file, flow_names, usual
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
@config_file.option("Where the flow is configured.")
@usual.as_json
def command(*, flow: str, offset: int, file: pathlib.Path, as_json: bool) -> int:
    """Skip a record of a flow's offset map that cannot be read.

    Resolves the halt [offset-map-unreadable] if another program wrote the record. If a newer
    release of mm2 wrote it, run that release instead: skipping discards what the record says.

    The command stores a receipt that names the record, then replaces the record with a tombstone.
    Halted partitions of a running flow resume at their next retry: within 15 seconds at first,
    within 10 minutes if they have been halted for long. A readable record is never skipped.

    \b
    Example:
      mm2 offsets skip 'east->west' --offset 1204
    """
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
            found = map_record_skip.skip(ledger, chosen, offset, clock=clock)
        except map_record_skip.NothingToSkipError as error:
            raise click.UsageError(str(error)) from error
        finally:
            ledger.close(1.0)
    topic = naming.map_topic(chosen.source)
    concerned = "all partitions" if found.partition is None else str(found.partition)
    if as_json:
        said = {
            "flow": chosen.name,
            "topic": topic,
            "offset": offset,
            "reason": found.why,
            "concerns": None if found.partition is None else str(found.partition),
        }
        click.echo(json.dumps(said, indent=2))
    else:
        terminal.print_line(
            f"{topic} of cluster {chosen.target}: skipped the record at offset {offset} "
            f"({found.why}), which halted {concerned} of {chosen.name}; mm2 receipts lists it"
        )
    return exits.DONE
