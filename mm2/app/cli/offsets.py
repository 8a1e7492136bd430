"""`mm2 offsets`: what offsets of one cluster are on the other, and making anew what tells it."""

from __future__ import annotations

import json
import os
import pathlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from connect_runtime.base import ids
from connect_runtime.system import clock as system_clock
from mm2.app import exits, terminal
from mm2.app.cli import config_file, flow_names, offsets_rebuild, offsets_skip, usual
from mm2.app.settings import load
from mm2.core import flows
from mm2.core.configs import kinds, own_values

if TYPE_CHECKING:
    from mm2.app.offsets import show
    from mm2.client import offset_translator, outcomes

_OFFSET_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was asked on the command line."""

    groups: tuple[str, ...]
    topic: str | None
    partitions: tuple[int, ...]
    offset: int | None
    timestamp_ms: int | None
    back: bool
    flow: str | None
    file: pathlib.Path
    as_json: bool
    as_csv: bool


@click.group("offsets")
def group() -> None:
    """What offsets of one cluster are on the other."""


def _time(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    if re.fullmatch("[0-9]{1,15}", text) and int(text) <= own_values.LATEST_MS:
        return int(text)
    kind = kinds.start_position()
    try:
        found = kind.parse((text,)).timestamp_ms
    except ValueError:
        found = None
    if found is None:
        raise click.BadParameter(
            f"{text!r}; say a time such as 2026-01-31T08:00:00Z, or milliseconds since 1970"
        )
    return int(found)


@group.command("translate")
@click.option("--group", "groups", multiple=True, metavar="G", help="This group; repeatable.")
@click.option("--topic", metavar="T", help="This topic, by its name on the cluster that is left.")
@usual.partitions("P", "This partition of it; repeatable.")
@click.option(
    "--offset",
    type=click.IntRange(min=0, max=_OFFSET_MAX),
    metavar="N",
    help="The offset that a consumer would go on from.",
)
@click.option(
    "--timestamp",
    "timestamp_ms",
    callback=_time,
    metavar="TIME",
    help="Or a time such as 2026-01-31T08:00:00Z, or milliseconds since 1970.",
)
@click.option("--back", is_flag=True, help="From the flow's target to its source.")
@click.option("--flow", metavar="FLOW", help="Of this flow.  [default: the only one of the file]")
@config_file.option("Where the flow is configured.")
@usual.as_json
@click.option("--csv", "as_csv", is_flag=True, help="Print what kafka-consumer-groups reads.")
def translate(**given: Any) -> int:
    """Say where consumers of one cluster go on on the other.

    Of a group: every position that it has committed, or, where its cluster does not answer, what
    its last checkpoints say. --csv prints the file that kafka-consumer-groups --reset-offsets
    --from-file takes. BASIS names what OFFSET is: "committed", "checkpoint" with its age, the
    offset "as given", or the offset of a time.

    \b
    exact      nothing is read again, and nothing is missed
    earlier    up to READ-AGAIN records are read again; after a checkpoint how many is unknown
    not ready  not copied yet, or not yet written down: ask again, or go on where copying has got to
    too old    before all that is known of the mirror
    unknown    nothing is known of it
    beyond the log end  there is no such offset on the cluster that is left

    \b
    Examples:
      mm2 offsets translate --group billing
      mm2 offsets translate --group billing --csv > billing.csv
      mm2 offsets translate --topic orders --partition 3 --offset 4711 --flow 'east->west'
      mm2 offsets translate --topic orders --partition 0 --timestamp 2026-01-31T08:00:00Z
      mm2 offsets translate --group billing --back --json
    """
    question = Question(**given)
    _check(question)
    settings = load.load(question.file, environment=os.environ)
    flow = flow_names.find_or_only(settings, question.flow, hint="--flow")
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.app import noise
    from mm2.app.offsets import linking
    from mm2.client import offset_translator

    clock = system_clock.SystemClock()
    with noise.to_file():
        link = linking.link(settings, flow, purpose="offsets", clock=clock)
        with offset_translator.OffsetTranslator(link, clock=clock) as translator:
            answer = _ask(question, flow, translator, at_ms=clock.wall_ms())
    _print(question, answer)
    return exits.DONE if answer.whole else exits.FAILED


def _check(question: Question) -> None:
    place = question.offset is not None, question.timestamp_ms is not None
    if bool(question.groups) == (question.topic is not None):
        raise click.UsageError("say either --group, or --topic with --partition")
    if question.groups and (question.partitions or any(place)):
        raise click.UsageError("--partition, --offset and --timestamp go with --topic")
    if question.topic is not None and (not question.partitions or sum(place) != 1):
        raise click.UsageError("--topic goes with --partition, and --offset or --timestamp")
    if question.as_json and question.as_csv:
        raise click.UsageError("say either --json or --csv")


def _ask(
    question: Question,
    flow: flows.Flow,
    translator: offset_translator.OffsetTranslator,
    *,
    at_ms: int,
) -> show.Answer:
    from mm2.app.offsets import show

    groups, places = None, []
    if question.groups:
        of_group = translator.translate_group_back if question.back else translator.translate_group
        groups = tuple(map(of_group, question.groups))
    else:
        places = [_place(question, translator, number) for number in question.partitions]
    return show.Answer(
        at_ms=at_ms,
        flow=flow.name,
        origin=flow.target if question.back else flow.source,
        destination=flow.source if question.back else flow.target,
        groups=groups,
        places=tuple(places),
        silent=translator.silent,
    )


def _place(
    question: Question, translator: offset_translator.OffsetTranslator, partition: int
) -> outcomes.Place:
    from mm2.client import outcomes

    topic, back = question.topic, question.back
    assert topic is not None
    if question.timestamp_ms is not None:
        at_time = translator.translate_timestamp_back if back else translator.translate_timestamp
        return at_time(topic, partition, question.timestamp_ms)
    assert question.offset is not None
    at_offset = translator.translate_back if back else translator.translate
    return outcomes.Place(
        partition=ids.TopicPartition(topic, partition),
        offset=question.offset,
        outcome=at_offset(topic, partition, question.offset),
        basis=outcomes.Basis.OFFSET,
    )


def _print(question: Question, answer: show.Answer) -> None:
    from mm2.app.offsets import show

    if question.as_json:
        click.echo(json.dumps(show.as_json(answer), indent=2))
    elif question.as_csv:
        click.echo(show.as_csv(answer), nl=False)
        for line in (*show.left_out(answer), *show.notes(answer)):
            terminal.print_line(line, err=True)
    else:
        for line in show.lines(answer):
            terminal.print_line(line)


group.add_command(offsets_rebuild.command)
group.add_command(offsets_skip.command)
