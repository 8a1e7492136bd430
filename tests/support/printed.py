"""Every message that ends with a command, made for one flow: what an operator may be told to type.

A command that is built anywhere goes through a cluster's `_tool`, or begins with `mm2`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mm2.app.reports import words
from mm2.connectors.topics import mirror_findings
from mm2.core import commands, flows, time_to_loss
from mm2.core.copy import (
    eras,
    facts,
    instructions,
    refusals,
    remedies,
    setup,
    source_batches,
    stops,
    tail,
)
from mm2.core.topics import plan, snapshot
from mm2.formats import map_record

FLOW = flows.Flow(source="east", target="west", replication_factor=1)
TOPIC = "orders"
MIRROR = "east.orders"
NEW = "new"
"""A topic without a mirror."""
_OURS = re.compile(
    r"mm2 (?:run|reload|resume|restart|topic|offsets) [^()&]*?(?=$|\)| && | and start)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording(commands.Cluster):
    """Keeps every command line that it gives out."""

    given: list[str] = field(default_factory=list)

    def _tool(self, name: str, *words: str) -> str:
        line = commands.Cluster._tool(self, name, *words)
        self.given.append(line)
        return line


def messages(operator: commands.Operator, *, hanging: int = 0) -> Iterator[str]:
    """`hanging` is where a transaction of the mirror begins that nobody ends."""
    where = _where(operator)
    yield from (each.message for each in halts(operator, hanging=hanging))
    for code in range(-1, 130):
        yield remedies.of_target(where, code, size=1_000_000)
        yield remedies.of_source(where, code)
    yield commands.to_go_on(remedies.fencing(FLOW.name, operator))
    for line in (
        operator.source.allow_topic(TOPIC, *mirror_findings.SOURCE_RIGHTS),
        operator.target.allow_topic(MIRROR, *mirror_findings.MIRROR_RIGHTS),
        operator.target.allow_cluster("DescribeConfigs"),
        operator.target.show_topic(MIRROR),
    ):
        yield commands.to_go_on(line)
    for by in (time_to_loss.By.TIME, time_to_loss.By.SIZE):
        outlook = time_to_loss.Outlook(kind=time_to_loss.Kind.RUNS_OUT, left_ms=1, by=by)
        kept = time_to_loss.Retention(keeps_ms=604_800_000, keeps_bytes=2**40)
        yield commands.to_go_on(
            words.way_on(TOPIC, outlook, retention=kept, source=operator.source)
        )
    for finding in _findings(operator):
        if finding.command:
            yield commands.to_go_on(finding.command)


def halts(operator: commands.Operator, *, hanging: int = 0) -> Iterator[stops.Stop]:
    """Every halt of a partition, also where topics have ids, and in a group of workers."""
    bare = _where(operator)
    for where in (bare, dataclasses.replace(bare, source_topic_id=b"1" * 16, in_group=True)):
        yield from _stops(where, hanging=hanging)
        for code in range(-1, 130):
            produced = refusals.produce(
                where, code=code, message="", offset=1, behind=2, size=99_999
            )
            fetched = refusals.fetch(where, code=code, offset=1)
            for reaction in (produced, fetched):
                if reaction is not None and reaction.stop is not None:
                    yield reaction.stop


def _where(operator: commands.Operator) -> setup.PartitionSetup:
    return setup.PartitionSetup(
        flow=FLOW.name,
        topic=TOPIC,
        remote_topic=MIRROR,
        partition=0,
        transactional_id="mm2-x",
        opposite_map="mm2-offset-map.west.internal",
        operator=operator,
    )


def ours(text: str) -> list[str]:
    """The command lines of mm2 in a message."""
    return _OURS.findall(text)


def _stops(where: setup.PartitionSetup, *, hanging: int) -> Iterator[stops.Stop]:
    yield stops.fenced(where)
    yield stops.refused(where, "no", code=29, retry_after_s=1.0)
    yield stops.timestamps_rewritten(where, offset=5)
    recreated = stops.recreated(where, on_target=True, was=b"1" * 16, now=b"2" * 16)
    assert recreated is not None
    yield recreated
    yield stops.source_diverged(where, end=5, copied=9)
    yield stops.source_gap(where, position=5, start=9)
    transaction = instructions.OpenTransaction(producer_id=5, start=hanging)
    yield stops.hanging(where, transaction, retry_after_s=1.0)
    yield stops.others_open(where, transaction, retry_after_s=1.0)
    for code in (29, 35):
        yield stops.standing_still(where, "no", code=code, stable=hanging, retry_after_s=1.0)
    yield stops.mirror_unknown(where, copied=9, leader_epoch=3)
    yield stops.mirror_unreadable(where, offset=5, why="it is damaged")
    damaged = source_batches.Obstacle(offset=5, why="no")
    for changed in ({}, {"behind": 9}, {"behind": 9, "sound": True}, {"by_transform": True}):
        yield stops.blocked(where, dataclasses.replace(damaged, **changed))
    yield stops.blocked(where, dataclasses.replace(damaged, behind=9, too_large=True))
    foreign = tail.Foreign(producer_id=5, offset=7)
    yield stops.foreign_writes(where, foreign, copied=3)
    yield stops.source_truncated(where, position=9, start=1, retry_after_s=1.0)
    yield stops.ahead_of_source(where, "it is ahead", copied=3, retry_after_s=1.0)
    yield stops.source_missing(where, "it is gone")
    for denied in (True, False):
        yield stops.opposite_unknown(where, "it cannot be read", denied=denied)
    for is_era in (False, True):
        record = facts.UnreadableRecord(offset=7, why="of version 9", is_era=is_era)
        yield stops.map_unreadable(where, record)
    yield stops.era_missing(where, 3)
    yield eras._not_empty(where, "it holds records")


def _findings(operator: commands.Operator) -> Iterator[plan.Finding]:
    """Of a mirror that is as unlike its topic as can be, and of one that is still to be made."""

    def topic(name: str, **settings: str) -> snapshot.Topic:
        entries = {
            key.replace("_", "."): snapshot.ConfigEntry(
                value=value, source=snapshot.ConfigSource.TOPIC
            )
            for key, value in settings.items()
        }
        return snapshot.Topic(name=name, partitions=1, configs=entries)

    source = topic(
        TOPIC,
        cleanup_policy="compact,delete",
        compression_type="producer",
        max_message_bytes="2000000",
    )
    mirror = topic(
        MIRROR,
        cleanup_policy="compact",
        compression_type="gzip",
        max_message_bytes="1000",
        message_timestamp_type="LogAppendTime",
        message_timestamp_after_max_ms="5",
    )
    unread = snapshot.Topic(name=TOPIC, partitions=1, configs=None)
    blind = snapshot.Topic(name=MIRROR, partitions=1, configs=None)
    brokers = {"message.timestamp.type": "LogAppendTime"}
    for here, there in (([source], [mirror]), ([unread], [blind]), ([topic(NEW)], [])):
        made = plan.plan(
            FLOW,
            snapshot.Snapshot(topics={each.name: each for each in here}),
            snapshot.Snapshot(topics={each.name: each for each in there}, new_topic=brokers),
            sync_configs=False,
            operator=operator,
        )
        yield from made.findings


POSITIONS = ("earliest", "latest", map_record.AT_OFFSET)
