"""Every message that ends with a command, made for one flow: what an operator may be told to type.

A command that is built anywhere goes through `_build_tool_command` of a cluster, or begins with
`mm2`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mm2 import suggested_commands
from mm2.connectors import mirror_topic_writer
from mm2.formats import offset_map_records
from mm2.replication import error_policy, mirror_generations
from mm2.replication import partition_halt_messages as replication_halts
from mm2.replication.partition_halt_messages import PartitionHalt
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.read_committed_batch_filter import UnreadableBatch
from mm2.replication.recovery_instructions import OpenTransaction, UnreadableStateRecord
from mm2.replication.target_log_tail import ForeignBatch
from mm2.status import time_to_data_loss
from mm2.status.time_to_data_loss import DeletionCause, RetentionRisk, RiskKind, TopicRetention
from mm2.suggested_commands import ClusterCommands, OperatorCommands
from mm2.topics import mirror_topic_plan
from mm2.topics.flow_config import Flow
from mm2.topics.mirror_topic_plan import (
    ConfigEntry,
    ConfigEntrySource,
    MirrorTopicFinding,
    ObservedTopic,
    TopicsSnapshot,
)

FLOW = Flow(source="east", target="west", replication_factor=1)
TOPIC = "orders"
MIRROR = "east.orders"
NEW = "new"
"""A topic without a mirror."""
_OURS = re.compile(
    r"mm2 (?:run|reload|resume|restart|topic|offsets) [^()&]*?(?=$|\)| && | and start)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording(ClusterCommands):
    """Keeps every command line that it gives out."""

    given: list[str] = field(default_factory=list)

    def _build_tool_command(self, name: str, *words: str) -> str:
        line = ClusterCommands._build_tool_command(self, name, *words)
        self.given.append(line)
        return line


def messages(operator: OperatorCommands, *, hanging: int = 0) -> Iterator[str]:
    """`hanging` is where a transaction of the mirror begins that nobody ends."""
    where = _where(operator)
    yield from (each.message for each in halts(operator, hanging=hanging))
    for code in range(-1, 130):
        yield replication_halts.build_target_error_remedy(where, code, size=1_000_000)
        yield replication_halts.build_source_error_remedy(where, code)
    yield suggested_commands.format_remedy(
        replication_halts.format_fencing_acl_command(FLOW.name, operator)
    )
    for line in (
        operator.source.build_allow_topic_command(
            TOPIC, *mirror_topic_writer.SOURCE_TOPIC_OPERATIONS
        ),
        operator.target.build_allow_topic_command(
            MIRROR, *mirror_topic_writer.MIRROR_TOPIC_OPERATIONS
        ),
        operator.target.build_allow_cluster_command("DescribeConfigs"),
        operator.target.build_show_topic_command(MIRROR),
    ):
        yield suggested_commands.format_remedy(line)
    for by in (DeletionCause.TIME, DeletionCause.SIZE):
        risk = RetentionRisk(kind=RiskKind.RUNS_OUT, left_ms=1, cause=by)
        kept = TopicRetention(retention_ms=604_800_000, retention_bytes=2**40)
        yield suggested_commands.format_remedy(
            time_to_data_loss.make_retention_command(
                TOPIC, risk, retention=kept, source=operator.source
            )
        )
    for finding in _findings(operator):
        if finding.command:
            yield suggested_commands.format_remedy(finding.command)


def halts(operator: OperatorCommands, *, hanging: int = 0) -> Iterator[PartitionHalt]:
    """Every halt of a partition, also where topics have ids, and in a group of workers."""
    bare = _where(operator)
    for where in (bare, dataclasses.replace(bare, source_topic_id=b"1" * 16, in_group=True)):
        yield from _stops(where, hanging=hanging)
        for code in range(-1, 130):
            produced = error_policy.react_to_produce_error(
                where, code=code, message="", offset=1, next_offset=2, size=99_999
            )
            fetched = error_policy.react_to_fetch_error(where, code=code, offset=1)
            for reaction in (produced, fetched):
                if reaction is not None and reaction.halt is not None:
                    yield reaction.halt


def _where(operator: OperatorCommands) -> PartitionSetup:
    return PartitionSetup(
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


def _stops(where: PartitionSetup, *, hanging: int) -> Iterator[PartitionHalt]:
    yield replication_halts.build_fenced_halt(where)
    yield replication_halts.build_access_denied_halt(where, "no", code=29, retry_after_s=1.0)
    yield replication_halts.build_timestamps_rewritten_halt(where, offset=5)
    recreated = replication_halts.halt_if_topic_recreated(
        where, on_target=True, was=b"1" * 16, now=b"2" * 16
    )
    assert recreated is not None
    yield recreated
    yield replication_halts.build_source_diverged_halt(where, end=5, copied=9)
    yield replication_halts.build_source_gap_halt(where, position=5, start=9)
    transaction = OpenTransaction(producer_id=5, start=hanging)
    yield replication_halts.build_own_open_transaction_halt(where, transaction, retry_after_s=1.0)
    yield replication_halts.build_foreign_open_transaction_halt(
        where, transaction, retry_after_s=1.0
    )
    for code in (29, 35):
        yield replication_halts.build_hidden_open_transaction_halt(
            where, "no", code=code, stable=hanging, retry_after_s=1.0
        )
    yield replication_halts.build_mirror_unknown_halt(where, copied=9, leader_epoch=3)
    yield replication_halts.build_mirror_unreadable_halt(where, offset=5, reason="it is damaged")
    damaged = UnreadableBatch(offset=5, reason="no")
    sound = {"next_offset": 9, "has_valid_checksum": True}
    for changed in ({}, {"next_offset": 9}, sound, {"by_transform": True}):
        yield replication_halts.build_unreadable_batch_halt(
            where, dataclasses.replace(damaged, **changed)
        )
    yield replication_halts.build_unreadable_batch_halt(
        where, dataclasses.replace(damaged, next_offset=9, too_large=True)
    )
    foreign = ForeignBatch(producer_id=5, offset=7)
    yield replication_halts.build_foreign_records_halt(where, foreign, copied=3)
    yield replication_halts.build_source_truncated_halt(
        where, position=9, start=1, retry_after_s=1.0
    )
    yield replication_halts.build_ahead_of_source_halt(
        where, "it is ahead", copied=3, retry_after_s=1.0
    )
    yield replication_halts.build_source_missing_halt(where, "it is gone")
    for denied in (True, False):
        yield replication_halts.build_reverse_flow_unknown_halt(
            where, "it cannot be read", denied=denied
        )
    for is_era in (False, True):
        record = UnreadableStateRecord(offset=7, why="of version 9", is_era=is_era)
        yield replication_halts.build_map_unreadable_halt(where, record)
    yield replication_halts.build_era_missing_halt(where, 3)
    yield mirror_generations._build_mirror_not_empty_halt(where, "it holds records")


def _findings(operator: OperatorCommands) -> Iterator[MirrorTopicFinding]:
    """Of a mirror that is as unlike its topic as can be, and of one that is still to be made."""

    def topic(name: str, **settings: str) -> ObservedTopic:
        entries = {
            key.replace("_", "."): ConfigEntry(value=value, source=ConfigEntrySource.TOPIC)
            for key, value in settings.items()
        }
        return ObservedTopic(name=name, partitions=1, configs=entries)

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
    unread = ObservedTopic(name=TOPIC, partitions=1, configs=None)
    blind = ObservedTopic(name=MIRROR, partitions=1, configs=None)
    brokers = {"message.timestamp.type": "LogAppendTime"}
    for here, there in (([source], [mirror]), ([unread], [blind]), ([topic(NEW)], [])):
        made = mirror_topic_plan.plan_mirror_topics(
            FLOW,
            TopicsSnapshot(topics={each.name: each for each in here}),
            TopicsSnapshot(topics={each.name: each for each in there}, default_configs=brokers),
            sync_configs=False,
            operator=operator,
        )
        yield from made.findings


POSITIONS = ("earliest", "latest", offset_map_records.OFFSET_POSITION_PREFIX)
