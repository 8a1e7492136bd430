from __future__ import annotations

import pytest

from mm2 import suggested_commands
from mm2.replication import partition_halt_messages
from mm2.replication.partition_setup import PartitionSetup
from mm2.suggested_commands import ClusterCommands, OperatorCommands

EAST = ClusterCommands(bootstrap="east:9092", principal="User:reader")
WEST = ClusterCommands(bootstrap="west:9092", principal="User:writer")
WHERE = PartitionSetup(
    flow="a->b",
    topic="orders",
    remote_topic="a.orders",
    partition=7,
    transactional_id="mm2-x",
    operator=OperatorCommands(file="c.yaml", source=EAST, target=WEST),
)
CONFIGS = (
    "kafka-configs.sh --bootstrap-server west:9092 --alter --entity-type topics "
    "--entity-name a.orders --add-config "
)
ACLS = "kafka-acls.sh --bootstrap-server west:9092 --add --allow-principal User:writer --operation "
WIDEST = "9223372036854775807"

# Each: the code, what is said, the command.
TARGET = [
    (10, "at least to 90", f"{CONFIGS}max.message.bytes=90"),
    (18, "the batch's 90 bytes", f"{CONFIGS}max.message.bytes=90,segment.bytes=1073741824"),
    (29, "WRITE", f"{ACLS}Describe --operation Read --operation Write --topic a.orders"),
    (31, "IDEMPOTENT_WRITE", f"{ACLS}IdempotentWrite --cluster"),
    (
        32,
        f"{CONFIGS}message.timestamp.difference.max.ms={WIDEST}",
        f"{CONFIGS}message.timestamp.type=CreateTime,message.timestamp.before.max.ms={WIDEST},"
        f"message.timestamp.after.max.ms={WIDEST}",
    ),
    (
        53,
        "transactional ids",
        f"{ACLS}Write --operation Describe --transactional-id 'mm2-a->b-' "
        "--resource-pattern-type prefixed",
    ),
    (76, "a codec that all its brokers accept", f"{CONFIGS}compression.type=gzip"),
    (
        87,
        "without a key",
        "kafka-configs.sh --bootstrap-server west:9092 --describe --all --entity-type topics "
        "--entity-name a.orders",
    ),
    (
        9999,
        "the broker's log",
        "kafka-topics.sh --bootstrap-server west:9092 --describe --topic a.orders",
    ),
]
UNTOLD = [
    (29, "READ on the mirror topic", f"{ACLS}Describe --operation Read --topic a.orders"),
    (35, "any proxy", "kafka-broker-api-versions.sh --bootstrap-server west:9092"),
]
SHOW = "kafka-topics.sh --bootstrap-server east:9092 --describe --topic orders"
SOURCE = [
    (2, "replicas", SHOW),
    (3, "topics.exclude", "mm2 reload --config c.yaml"),
    (
        29,
        "READ",
        "kafka-acls.sh --bootstrap-server east:9092 --add --allow-principal User:reader "
        "--operation Describe --operation Read --topic orders",
    ),
    (56, "replicas", SHOW),
    (100, "the broker's log", SHOW),
    (103, "the broker's log", SHOW),
]


@pytest.mark.parametrize(("code", "said", "line"), TARGET)
def test_what_the_target_refuses_has_its_command(code, said, line):
    told = partition_halt_messages.build_target_error_remedy(WHERE, code, size=90)
    assert said in told
    assert told.endswith(f". {suggested_commands.format_remedy(line)}")


@pytest.mark.parametrize(("code", "said", "line"), SOURCE)
def test_what_the_source_refuses_has_its_command(code, said, line):
    told = partition_halt_messages.build_source_error_remedy(WHERE, code)
    assert said in told
    assert told.endswith(f". {suggested_commands.format_remedy(line)}")


@pytest.mark.parametrize(("code", "said", "line"), UNTOLD)
def test_who_is_not_told_which_transactions_are_open_sees_what_is_in_the_way(code, said, line):
    told = partition_halt_messages.build_describe_producers_remedy(WHERE, code)
    assert said in told
    assert told.endswith(f". {suggested_commands.format_remedy(line)}")
