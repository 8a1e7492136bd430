"""`mm2 resume`: the way on after a pause, and for partitions that a flow has stopped for good."""

from __future__ import annotations

import os
import pathlib
import re
import secrets
import threading
from typing import TYPE_CHECKING

import click

from connect_runtime.system import clock as system_clock
from mm2.app import exits
from mm2.app.cli import config_file, flow_commands, flow_names, usual
from mm2.app.settings import load
from mm2.core import naming
from mm2.core.configs import kinds, own_values
from mm2.formats import map_record

if TYPE_CHECKING:
    from mm2.app import resume
    from mm2.app.settings import settings as app_settings

_ID_BYTES = 8
_OFFSET_MAX = 2**63 - 1


@click.command("resume")
@click.argument("flow", metavar="FLOW")
@click.option("--topic", metavar="T", help="Only this topic of the source.")
@usual.partitions("N", "Only this partition; repeatable.  [default: all of the topic]")
@click.option("--new-era", is_flag=True, help="Let stopped partitions begin anew.")
@click.option(
    "--from",
    "start",
    metavar="earliest|latest|TIMESTAMP|offset:N",
    help="Where: a time such as 2026-01-31T08:00:00Z or milliseconds, or, with --partition, a "
    "source offset.  [default: the flow's start]",
)
@config_file.option("Where the flow is configured.")
@click.option("--force", is_flag=True, help="Also when the flow seems to run.")
@usual.as_json
def command(
    *,
    flow: str,
    topic: str | None,
    partitions: tuple[int, ...],
    new_era: bool,
    start: str | None,
    file: pathlib.Path,
    force: bool,
    as_json: bool,
) -> int:
    """Let the running FLOW, or one of its topics, go on after mm2 pause.

    With --new-era: let partitions of a topic that have stopped for good begin anew at the flow's
    next start. Stop the flow first. The request is written into its map topic on the target.

    \b
    Examples:
      mm2 resume 'east->west'
      mm2 resume 'east->west' --topic orders
      mm2 resume 'east->west' --topic orders --new-era --from latest
      mm2 resume 'east->west' --topic orders --partition 3 --new-era --from 2026-01-31T08:00:00Z
    """
    if not new_era:
        if partitions or start is not None or force:
            raise click.UsageError("--partition, --from and --force go with --new-era")
        return flow_commands.resume(flow=flow, topic=topic, file=file, as_json=as_json)
    if topic is None:
        raise click.UsageError("--new-era goes with --topic")
    if as_json:
        raise click.UsageError("--json does not go with --new-era")
    settings = load.load(file, environment=os.environ)
    chosen = flow_names.find(settings, flow, hint="FLOW")
    position = chosen.start.text if start is None else _position(start)
    if position.startswith(map_record.AT_OFFSET) and not partitions:
        raise click.UsageError("offsets differ from partition to partition: say --partition too")
    from mm2.app import resume  # not above, as `connections`: see `_recorded`

    order = resume.Order(flow=chosen, topic=topic, partitions=partitions, position=position)
    for each in _recorded(order, settings, force=force):
        click.echo(each.describe())
    log = naming.map_topic(chosen.source)
    click.echo(f"recorded in {log} of cluster {chosen.target}; now start the flow")
    return exits.DONE


def _recorded(
    order: resume.Order, settings: app_settings.Settings, *, force: bool
) -> list[resume.Recorded]:
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.app import connections, noise, resume

    clock = system_clock.SystemClock()
    client_id = f"mm2-{order.flow.name}-resume"
    with noise.to_file() as log_file:
        source = connections.source_admin(settings, order.flow, client_id=client_id, clock=clock)
        ledger = connections.ledger(settings, order.flow, client_id=client_id, clock=clock)
        tools = resume.Tools(
            source=source,
            ledger=ledger,
            clock=clock,
            pause=threading.Event().wait,
            new_id=lambda: secrets.token_hex(_ID_BYTES),
        )
        try:
            recorded = resume.resume(order, tools, force=force)
        except resume.WrongRequestError as error:
            raise click.UsageError(str(error)) from error
        finally:
            ledger.close(1.0)
            source.close()
        log_file.keep = False
    return recorded


def _position(start: str) -> str:
    if re.fullmatch("[0-9]{1,15}", start) and int(start) <= own_values.LATEST_MS:
        return start
    offset = start.removeprefix(map_record.AT_OFFSET)
    if offset != start and re.fullmatch("[0-9]{1,19}", offset) and int(offset) <= _OFFSET_MAX:
        return start
    kind = kinds.start_position()
    try:
        return kind.parse((start,)).text
    except ValueError:
        raise click.BadParameter(
            f"{start!r}; allowed: {kind.allowed}, milliseconds since 1970, or offset:N",
            param_hint="--from",
        ) from None
