from __future__ import annotations

import pytest

from mm2 import suggested_commands
from mm2.formats import offset_map_records
from mm2.replication import partition_halt_messages
from mm2.replication.partition_halt_messages import HaltCause
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.read_committed_batch_filter import UnreadableBatch
from mm2.replication.recovery_instructions import OpenTransaction

WHERE = PartitionSetup(
    flow="a->b", topic="orders", remote_topic="a.orders", partition=7, transactional_id="mm2-x"
)
RESET = "mm2 topic reset 'a->b' orders --partition 7 --from"
FILE = "--config clusters.yaml"
TOOLS = "--bootstrap-server HOST:PORT"
PLACE = "--topic a.orders --partition 7"
ABORT = f"kafka-transactions.sh {TOOLS} abort {PLACE} --start-offset 50"
RIGHT = (
    f"kafka-acls.sh {TOOLS} --add --allow-principal User:NAME "
    "--operation Describe --operation Read --topic a.orders"
)
VERSIONS = f"kafka-broker-api-versions.sh {TOOLS}"
PRODUCERS = f"kafka-transactions.sh {TOOLS} describe-producers {PLACE}"
OPEN = OpenTransaction(producer_id=9, start=50)
REFUSED = partition_halt_messages.build_access_denied_halt(
    WHERE, "no room", code=29, retry_after_s=30.0
)
DIVERGED = partition_halt_messages.build_source_diverged_halt(WHERE, end=40, copied=50)

# Each: the stop, its cause, what its message must name.
TABLE = [
    (
        REFUSED,
        HaltCause.REFUSED_BY_TARGET,
        ["a.orders-7: no room", "--operation Write --topic a.orders"],
    ),
    (
        partition_halt_messages.build_fenced_halt(WHERE),
        HaltCause.FENCED,
        [
            "a.orders-7: another mm2 process acquired this partition of flow a->b",
            "mm2 restart 'a->b' --topic orders --config clusters.yaml",
        ],
    ),
    (
        partition_halt_messages.build_own_open_transaction_halt(WHERE, OPEN, retry_after_s=30.0),
        HaltCause.HANGING_TRANSACTION,
        [
            "a.orders-7",
            "transaction at offset 50, of producer id 9, is hanging",
            "its marker was lost",
            "a batch arrived late",
            ABORT,
        ],
    ),
    (
        partition_halt_messages.build_foreign_open_transaction_halt(
            WHERE, OPEN, retry_after_s=30.0
        ),
        HaltCause.HANGING_TRANSACTION,
        [
            "a.orders-7: a transaction is open at offset 50. Its producer id 9 does not",
            PRODUCERS,
            ABORT,
        ],
    ),
    (
        partition_halt_messages.build_hidden_open_transaction_halt(
            WHERE, "no right", code=29, stable=50, retry_after_s=30.0
        ),
        HaltCause.HANGING_TRANSACTION,
        ["a.orders-7", "open at offset 50", "no right", "READ", RIGHT],
    ),
    (
        partition_halt_messages.build_hidden_open_transaction_halt(
            WHERE, "unknown", code=35, stable=50, retry_after_s=30.0
        ),
        HaltCause.HANGING_TRANSACTION,
        ["a.orders-7", "open at offset 50", "unknown", "proxy", VERSIONS],
    ),
    (
        partition_halt_messages.build_unreadable_batch_halt(
            WHERE, UnreadableBatch(offset=50, reason="bad length")
        ),
        HaltCause.CORRUPT_BATCH,
        [
            f"kafka-topics.sh {TOOLS} --describe --topic orders",
            "Move leadership to an intact replica",
            f"{RESET} latest {FILE}",
        ],
    ),
    (
        partition_halt_messages.build_unreadable_batch_halt(
            WHERE,
            UnreadableBatch(offset=50, reason="its gzip", next_offset=54, has_valid_checksum=True),
        ),
        HaltCause.CORRUPT_BATCH,
        ["its gzip. Its checksum is valid", f"{RESET} offset:54 {FILE}"],
    ),
    (
        partition_halt_messages.build_unreadable_batch_halt(
            WHERE,
            UnreadableBatch(offset=50, reason="no field a", next_offset=51, by_transform=True),
        ),
        HaltCause.TRANSFORM_FAILED,
        ["Correct the transform", f"{RESET} offset:51 {FILE}"],
    ),
    (
        partition_halt_messages.build_unreadable_batch_halt(
            WHERE,
            UnreadableBatch(offset=50, reason="its bytes", next_offset=54, too_large=True),
        ),
        HaltCause.BATCH_TOO_LARGE,
        ["its bytes. Raise buffer.memory", f"{RESET} offset:54 {FILE}"],
    ),
    (
        partition_halt_messages.build_timestamps_rewritten_halt(WHERE, offset=50),
        HaltCause.TIMESTAMPS_REWRITTEN,
        [
            "a.orders-7",
            "offset 50",
            f"kafka-topics.sh {TOOLS} --delete --topic a.orders",
            f"kafka-configs.sh {TOOLS} --alter --entity-type topics --entity-name a.orders "
            f"--add-config message.timestamp.type=CreateTime && {RESET} offset:50 {FILE}",
        ],
    ),
    (
        partition_halt_messages.build_source_gap_halt(WHERE, position=40, start=50),
        HaltCause.SOURCE_GAP,
        ["orders-7", "offsets 40 to 49", "on.source.gap is fail", f"{RESET} offset:50 {FILE}"],
    ),
    (
        DIVERGED,
        HaltCause.SOURCE_TRUNCATED,
        ["orders-7", "offset 40", "up to offset 50", f"{RESET} offset:40 {FILE}"],
    ),
    (
        partition_halt_messages.build_mirror_unknown_halt(WHERE, copied=60, leader_epoch=9),
        HaltCause.RECREATED,
        ["a.orders-7", "offset 60", "leader epoch 9", "created again", f"--from earliest {FILE}"],
    ),
    (
        partition_halt_messages.build_mirror_unreadable_halt(
            WHERE, offset=50, reason="it is damaged"
        ),
        HaltCause.TAIL_MISMATCH,
        ["cannot be read at offset 50: it is damaged", f"{RESET} earliest {FILE}"],
    ),
    (
        partition_halt_messages.build_unreadable_batch_halt(
            WHERE, UnreadableBatch(offset=50, reason="bad checksum", next_offset=60)
        ),
        HaltCause.CORRUPT_BATCH,
        [
            "orders-7 at source offset 50: bad checksum",
            "--describe --topic orders",
            f"{RESET} offset:60 {FILE}",
        ],
    ),
]


@pytest.mark.parametrize(("stop", "cause", "names"), TABLE, ids=lambda each: str(each)[:20])
def test_a_stop_says_where_what_and_how_to_go_on(stop, cause, names):
    assert stop.cause is cause
    for name in names:
        assert name in stop.message


@pytest.mark.parametrize(("stop", "cause", "_"), TABLE, ids=lambda each: str(each)[:20])
def test_only_what_others_can_repair_is_tried_again(stop, cause, _):
    others = (
        cause in (HaltCause.REFUSED_BY_TARGET, HaltCause.HANGING_TRANSACTION)
        or "intact replica" in stop.message
    )
    assert stop.retry_after_s == (30.0 if others else None)


@pytest.mark.parametrize(("stop", "_", "names"), TABLE, ids=lambda each: str(each)[:20])
def test_every_stop_ends_with_a_command(stop, _, names):
    line = suggested_commands.extract_remedy_from_message(stop.message)
    assert line
    assert stop.message.endswith(f". {suggested_commands.format_remedy(line)}")
    assert line.endswith(names[-1])


@pytest.mark.parametrize(
    ("position", "others"),
    [
        ("earliest", "Other values for --from: latest (only new records), or a time. "),
        ("latest", "Other values for --from: earliest (everything the source holds), or a time. "),
    ],
)
def test_a_reset_names_other_positions(position, others):
    told = partition_halt_messages.format_reset_remedy(WHERE, position=position)
    assert told == f"{others}Remedy: {RESET} {position} {FILE}"


def test_a_skip_names_no_other_position():
    assert (
        partition_halt_messages.format_skip_remedy(WHERE, next_offset=8)
        == f"Remedy: {RESET} offset:8 {FILE}"
    )


def test_what_must_be_done_first_stands_first():
    told = partition_halt_messages.format_reset_remedy(
        WHERE, position="latest", before="first this"
    )
    assert told.endswith(f"Remedy: first this && {RESET} latest {FILE}")


def test_the_text_of_a_halt_begins_with_its_code():
    assert partition_halt_messages.build_fenced_halt(WHERE).coded_message.startswith(
        "[fenced-by-another-owner] a.orders-7: "
    )


def test_causes_are_told_apart_by_their_names():
    names = [cause.value for cause in HaltCause]
    assert len(names) == len(set(names)) == len(HaltCause.__members__)


OLD_ID, NEW_ID = b"1" * 16, b"2" * 16


@pytest.mark.parametrize(
    ("on_target", "side"), [(True, "mirror topic a.orders"), (False, "source topic orders")]
)
def test_a_recreated_topic_is_told_with_both_ids(on_target, side):
    stop = partition_halt_messages.halt_if_topic_recreated(
        WHERE, on_target=on_target, was=OLD_ID, now=NEW_ID
    )
    assert stop is not None
    assert (stop.cause, stop.retry_after_s) == (HaltCause.RECREATED, None)
    for name in (side, "MTExMTExMTExMTExMTExMQ", "MjIyMjIyMjIyMjIyMjIyMg"):
        assert name in stop.message
    assert suggested_commands.extract_remedy_from_message(stop.message) == (
        f"mm2 topic reset 'a->b' orders --from earliest {FILE}"
    )


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (OLD_ID, OLD_ID),
        (OLD_ID, offset_map_records.NO_TOPIC_ID),
        (offset_map_records.NO_TOPIC_ID, NEW_ID),
    ],
    ids=["the same", "not known now", "not known then"],
)
def test_topic_ids_that_agree_or_are_unknown_stop_nothing(was, now):
    assert (
        partition_halt_messages.halt_if_topic_recreated(WHERE, on_target=True, was=was, now=now)
        is None
    )
