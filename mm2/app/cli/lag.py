"""`mm2 lag`: how far the flows of a file are behind, in records and seconds."""

from __future__ import annotations

import json
from typing import Any

import click

from mm2.app import exits, terminal
from mm2.app.cli import flow_options


@click.command("lag")
@flow_options.asking
@click.option("--topic", metavar="TOPIC", help="Only this topic of the source, or its mirror.")
@click.option("--partitions", is_flag=True, help="Each partition, too.")
@click.option(
    "--max-records", type=click.IntRange(min=0), metavar="N", help="Fail if a flow lags by more."
)
@click.option(
    "--max-seconds", type=click.FloatRange(min=0), metavar="S", help="Fail if a flow lags by more."
)
def command(
    *,
    asked: flow_options.Asked,
    topic: str | None,
    partitions: bool,
    max_records: int | None,
    max_seconds: float | None,
) -> int:
    """Say how far the flows of FILE (default: clusters.yaml) are behind, topic by topic.

    LAG is the source's last stable offset minus the next offset to copy: an upper bound where the
    log has gaps. LAG-TIME is the age of the oldest record not yet copied, 0 if there is none.
    LOST-IN is when the source deletes that one, if nothing is copied until then. `>` stands before
    sums of which a part is unknown. Who is asked: see mm2 status.

    \b
    Examples:
      mm2 lag
      mm2 lag clusters.yaml --topic orders --partitions
      mm2 lag --max-seconds 60 --json
    """
    found = flow_options.found(asked)
    from mm2.app.reports import flow_report, show

    if topic is not None:
        found = show.only(found, topic)
        if not any(each.partitions for each in found.flows):
            raise click.BadParameter(f"no flow has anything of {topic!r}", param_hint="--topic")
    if asked.as_json:
        told = {
            "version": flow_report.JSON_VERSION,
            "flows": [_flow_json(each) for each in found.flows],
            "notes": list(found.notes),
        }
        click.echo(json.dumps(told, indent=2))
    else:
        for line in show.lag(found, partitions=partitions or topic is not None):
            terminal.print_line(line)
    return exits.worst(
        [_exit_code(each, max_records=max_records, max_seconds=max_seconds) for each in found.flows]
    )


def _flow_json(report: Any) -> dict[str, Any]:
    from mm2.app.reports import flow_report

    whole = flow_report.as_json(report)
    of_flow = flow_report.lag(report.partitions, report.at_ms)
    names = ("flow", "seen_by", "at_ms", "state")
    topics = []
    for name, parts in flow_report.by_topic(report.partitions).items():
        of_all = flow_report.lag(parts, report.at_ms)
        topics.append({"topic": name, "mirror": parts[0].mirror, **flow_report.lag_json(of_all)})
    return {
        **{name: whole[name] for name in names},
        **flow_report.lag_json(of_flow),
        "topics": topics,
        "partitions": whole["partitions"],
    }


def _exit_code(report: Any, *, max_records: int | None, max_seconds: float | None) -> int:
    """While a cluster is unreachable nothing is replicated: that is a problem, not just unknown."""
    from mm2.app.reports import flow_report

    if report.state is flow_report.State.UNKNOWN:
        return exits.UNREACHABLE
    if any(not each.broker for each in report.unreachable):
        return exits.FAILED
    if not report.partitions or report.elsewhere:
        return exits.UNKNOWN
    found = flow_report.lag(report.partitions, report.at_ms)
    records, ms = found.records or 0, found.ms or 0
    if max_records is not None and records > max_records:
        return exits.FAILED
    if max_seconds is not None and ms > max_seconds * 1000:
        return exits.FAILED
    known = found.complete and (found.dated or max_seconds is None)
    return exits.DONE if known else exits.UNKNOWN
