"""`mm2 receipts`: durable records of data loss, skipped records and possible duplicates, and of
what operators did."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from connect_runtime.base import errors
from connect_runtime.system import clock as system_clock
from connect_runtime.system import pool
from mm2.app import columns, exits, terminal
from mm2.app.cli import flow_options
from mm2.core import flows
from mm2.formats import receipt

if TYPE_CHECKING:
    from mm2.app.looks import receipts as receipt_looks
    from mm2.app.settings import settings as app_settings

JSON_VERSION = 1
_KINDS = [each.value for each in receipt.ReceiptKind]
_ACTION = receipt.ReceiptKind.OPERATOR_ACTION
_COLUMNS = ("AT", "FLOW", "TOPIC", "PARTITION", "KIND", "SOURCE", "MIRROR", "DETAIL")
_SPARE_S = 2.0
"""How much later than asked a client may report that time is up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The receipts of one flow, and the records that are none; `error`: why they could not be
    read."""

    flow: flows.Flow
    receipts: Sequence[receipt.Receipt] = ()
    unreadable: Sequence[receipt_looks.Unreadable] = ()
    error: errors.ConnectError | None = None


@click.command("receipts")
@flow_options.asking_clusters(timeout_s=10.0)
@click.option("--topic", metavar="TOPIC", help="Only this topic of the source.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(_KINDS),
    metavar="KIND",
    help=f"Only this kind; repeatable: {', '.join(_KINDS)}.",
)
@click.option(
    "--exit-code",
    is_flag=True,
    help=f"Exit with 1 if any receipt or unreadable record is listed; {_ACTION.value} counts only "
    "if --kind names it.",
)
def command(
    *,
    asked: flow_options.Asked,
    topic: str | None,
    kinds: tuple[str, ...],
    exit_code: bool,
) -> int:
    """List the receipts of all flows, oldest first.

    A receipt is a durable record on the target cluster that records were lost or skipped, or may be
    duplicated. SOURCE and MIRROR are the offset ranges [from,to) concerned.

    Receipts of kind operator-action record who paused, resumed, stopped, restarted, throttled,
    reloaded or reconfigured a flow or topic. Only the latest of each such action is kept.

    A record that this release cannot read is listed as "unreadable", whatever --topic and --kind
    select: it may report a loss. A newer release may be able to read it.

    The flows need not run: all targets are read in parallel. A target that cannot be read is
    reported on stderr.

    \b
    Examples:
      mm2 receipts
      mm2 receipts --topic orders --kind source-gone
      mm2 receipts --kind operator-action
      mm2 receipts --json --exit-code
    """
    settings, wanted = flow_options.chosen(asked)
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.app import noise

    with noise.to_file():
        answers = _read_all(settings, wanted, timeout_s=asked.timeout_s)
    found = sorted(
        (
            (each.flow.name, one)
            for each in answers
            for one in each.receipts
            if (topic is None or one.topic == topic) and (not kinds or one.kind.value in kinds)
        ),
        key=lambda each: each[1].at_ms,
    )
    if asked.as_json:
        _print_json(found, answers)
    else:
        _print(found, answers)
    for each in answers:
        if each.error is not None:
            where = f"the receipts of {each.flow.name} on {each.flow.target}"
            reason = str(each.error).removeprefix(f"{each.flow.target}: ")
            terminal.print_line(f"mm2: cannot read {where}: {reason}", err=True)
    counted = any(each.unreadable for each in answers) or any(
        one.kind is not _ACTION or _ACTION.value in kinds for _, one in found
    )
    of_found = exits.FAILED if counted and exit_code else exits.DONE
    return exits.worst([of_found if each.error is None else exits.UNREACHABLE for each in answers])


def _read_all(
    settings: app_settings.Settings, wanted: Sequence[flows.Flow], *, timeout_s: float
) -> list[Answer]:
    """All targets at the same time, within `timeout_s`; half of it is for waiting until they
    answer."""
    from mm2.app import cluster_wait, connections
    from mm2.app.looks import receipts, sides

    clock = system_clock.SystemClock()

    def read(flow: flows.Flow) -> Answer:
        try:
            cluster_wait.require(
                [connections.target_access(settings, flow)],
                timeout_s=timeout_s / 2,
                tell=lambda line: terminal.print_line(line, err=True),
                clock=clock,
            )
            with sides.Sides(settings, flow, purpose="receipts", clock=clock) as both:
                found = receipts.read(both.target, flow.source, timeout_s=timeout_s)
        except errors.ConnectError as error:
            return Answer(flow=flow, error=error)
        return Answer(flow=flow, receipts=found.stated, unreadable=found.unreadable)

    threads = pool.Pool("receipts", threads_max=len(wanted), waiting_max=len(wanted))
    calls = [(flow, threads.submit(functools.partial(read, flow))) for flow in wanted]
    futures.wait([call for _, call in calls], timeout=timeout_s + _SPARE_S)
    late = errors.RetriableError(f"no answer within {timeout_s:g} s")
    return [call.result() if call.done() else Answer(flow=flow, error=late) for flow, call in calls]


def _print(found: Sequence[tuple[str, receipt.Receipt]], answers: Sequence[Answer]) -> None:
    read = [each.flow.name for each in answers if each.error is None]
    rows = [_row(name, one) for name, one in found]
    rows += [_unreadable_row(each.flow.name, one) for each in answers for one in each.unreadable]
    if rows:
        for line in columns.lines(_COLUMNS, rows):
            terminal.print_line(line)
    elif len(read) == len(answers):
        terminal.print_line("no receipts")
    elif read:
        terminal.print_line(f"no receipts of {', '.join(read)}")


def _print_json(found: Sequence[tuple[str, receipt.Receipt]], answers: Sequence[Answer]) -> None:
    failed = [
        {"flow": each.flow.name, "cluster": each.flow.target, "error": str(each.error)}
        for each in answers
        if each.error is not None
    ]
    told = [_json(name, one) for name, one in found]
    unreadable = [
        {
            "flow": each.flow.name,
            "cluster": each.flow.target,
            "topic": one.topic,
            "offset": one.offset,
            "error": one.reason,
        }
        for each in answers
        for one in each.unreadable
    ]
    whole = {
        "version": JSON_VERSION,
        "receipts": told,
        "unreadable": unreadable,
        "errors": failed,
    }
    click.echo(json.dumps(whole, indent=2))


def _row(flow: str, one: receipt.Receipt) -> tuple[str, ...]:
    from mm2.app.reports import show

    return (
        show.moment(one.at_ms),
        flow,
        one.topic or "-",
        "-" if one.partition == receipt.NO_PARTITION else str(one.partition),
        one.kind.value,
        _range(one.source),
        _range(one.target),
        one.detail,
    )


def _unreadable_row(flow: str, one: receipt_looks.Unreadable) -> tuple[str, ...]:
    where = f"offset {one.offset} of {one.topic}: {one.reason}"
    return ("-", flow, "-", "-", "unreadable", "-", "-", where)


def _range(offsets: receipt.Range | None) -> str:
    return "-" if offsets is None else f"[{offsets[0]},{offsets[1]})"


def _json(flow: str, one: receipt.Receipt) -> dict[str, Any]:
    return {
        "flow": flow,
        "topic": one.topic or None,
        "partition": None if one.partition == receipt.NO_PARTITION else one.partition,
        "kind": one.kind.value,
        "source": one.source,
        "target": one.target,
        "at_ms": one.at_ms,
        "detail": one.detail,
        "id": one.id,
    }
