"""`mm2 receipts`: what was lost, skipped, doubled or could not be ruled out."""

from __future__ import annotations

import json
from typing import Any

import click

from connect_runtime.system import clock as system_clock
from mm2.app import columns, exits
from mm2.app.cli import flow_options
from mm2.formats import receipt

JSON_VERSION = 1
_KINDS = [each.value for each in receipt.ReceiptKind]
_COLUMNS = ("AT", "FLOW", "TOPIC", "PARTITION", "KIND", "SOURCE", "MIRROR", "DETAIL")


@click.command("receipts")
@flow_options.asking_clusters
@click.option("--topic", metavar="TOPIC", help="Only of this topic of the source.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(_KINDS), help="Only these kinds.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 when there is any.")
def command(
    *,
    asked: flow_options.Asked,
    topic: str | None,
    kinds: tuple[str, ...],
    exit_code: bool,
) -> int:
    """List the receipts of the flows of FILE (default: clusters.yaml), oldest first.

    A receipt is a durable record on the target that something was lost, may stand twice, or could
    not be ruled out, with the offsets [from,to) that it is about. Targets are asked, whether the
    flows run or not. The exit code is 0, also when there are some, unless --exit-code is given;
    1 when a target does not answer; 2 when FILE is wrong.

    \b
    Examples:
      mm2 receipts
      mm2 receipts --topic orders --kind source-gone
      mm2 receipts --json --exit-code
    """
    settings, wanted = flow_options.chosen(asked)
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.app import noise
    from mm2.app.looks import receipts, sides

    found: list[tuple[str, receipt.Receipt]] = []
    with noise.to_file() as log_file:
        for each in wanted:
            clock = system_clock.SystemClock()
            with sides.Sides(settings, each, purpose="receipts", clock=clock) as both:
                stated = receipts.read(both.target, each.source, timeout_s=asked.timeout_s)
            found += [
                (each.name, one)
                for one in stated
                if (topic is None or one.topic == topic) and (not kinds or one.kind.value in kinds)
            ]
        log_file.keep = False
    if asked.as_json:
        told = [_json(name, one) for name, one in found]
        click.echo(json.dumps({"version": JSON_VERSION, "receipts": told}, indent=2))
    elif found:
        for line in columns.lines(_COLUMNS, [_row(name, one) for name, one in found]):
            click.echo(line)
    else:
        click.echo("no receipts")
    return exits.FAILED if found and exit_code else exits.DONE


def _row(flow: str, one: receipt.Receipt) -> tuple[str, ...]:
    from mm2.app.reports import show

    return (
        show.moment(one.at_ms),
        flow,
        one.topic,
        str(one.partition),
        one.kind.value,
        _range(one.source),
        _range(one.target),
        one.detail,
    )


def _range(offsets: receipt.Range | None) -> str:
    return "-" if offsets is None else f"[{offsets[0]},{offsets[1]})"


def _json(flow: str, one: receipt.Receipt) -> dict[str, Any]:
    return {
        "flow": flow,
        "topic": one.topic,
        "partition": one.partition,
        "kind": one.kind.value,
        "source": one.source,
        "target": one.target,
        "at_ms": one.at_ms,
        "detail": one.detail,
        "id": one.id,
    }
