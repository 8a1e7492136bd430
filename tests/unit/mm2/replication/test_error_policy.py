from __future__ import annotations

import dataclasses

import pytest

from mm2 import suggested_commands
from mm2.replication import error_policy, partition_halt_messages
from mm2.replication.error_policy import ErrorAction, ErrorReaction
from mm2.replication.partition_halt_messages import HaltCause
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.read_committed_batch_filter import UnreadableBatch

WHERE = PartitionSetup(
    flow="a->b", topic="orders", remote_topic="a.orders", partition=7, transactional_id="mm2-x"
)
TAKE, BACK_OFF = ErrorAction.REACQUIRE, ErrorAction.BACK_OFF
CHECK_FENCE, STOP = ErrorAction.CHECK_FENCE, ErrorAction.HALT


def produce(code, message=""):
    return error_policy.react_to_produce_error(WHERE, code=code, message=message, offset=500)


UNCLEAR = [-1, 2, 76, 9999]
"""These may pass, and are told with what to do if they do not."""
FEW = "(fewer in-sync replicas than min.insync.replicas)"


@pytest.mark.parametrize(
    ("code", "then", "reason"),
    [
        (2, BACK_OFF, "a.orders-7: CORRUPT_MESSAGE"),
        (3, BACK_OFF, "a.orders-7: UNKNOWN_TOPIC_OR_PARTITION"),
        (5, BACK_OFF, "a.orders-7: LEADER_NOT_AVAILABLE"),
        (6, BACK_OFF, "a.orders-7: NOT_LEADER_OR_FOLLOWER"),
        (
            7,
            BACK_OFF,
            "a.orders-7: REQUEST_TIMED_OUT (replicas did not acknowledge the batch in time)",
        ),
        (10, STOP, "RECORD_TOO_LARGE"),
        (18, STOP, "RECORD_LIST_TOO_LARGE"),
        (19, BACK_OFF, f"a.orders-7: NOT_ENOUGH_REPLICAS {FEW}"),
        (20, BACK_OFF, f"a.orders-7: NOT_ENOUGH_REPLICAS_AFTER_APPEND {FEW}"),
        (29, STOP, "TOPIC_AUTHORIZATION_FAILED"),
        (31, STOP, "CLUSTER_AUTHORIZATION_FAILED"),
        (32, STOP, "INVALID_TIMESTAMP"),
        (45, BACK_OFF, "a.orders-7: OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (46, BACK_OFF, "a.orders-7: DUPLICATE_SEQUENCE_NUMBER"),
        (47, CHECK_FENCE, "INVALID_PRODUCER_EPOCH"),
        (48, CHECK_FENCE, "INVALID_TXN_STATE"),
        (49, CHECK_FENCE, "INVALID_PRODUCER_ID_MAPPING"),
        (53, STOP, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        (56, BACK_OFF, "a.orders-7: KAFKA_STORAGE_ERROR (is the broker's disk full?)"),
        (59, BACK_OFF, "a.orders-7: UNKNOWN_PRODUCER_ID"),
        (74, BACK_OFF, "a.orders-7: FENCED_LEADER_EPOCH"),
        (75, BACK_OFF, "a.orders-7: UNKNOWN_LEADER_EPOCH"),
        (76, BACK_OFF, "a.orders-7: UNSUPPORTED_COMPRESSION_TYPE"),
        (87, STOP, "INVALID_RECORD"),
        (89, BACK_OFF, "a.orders-7: THROTTLING_QUOTA_EXCEEDED"),
        (90, CHECK_FENCE, "PRODUCER_FENCED"),
        (100, BACK_OFF, "a.orders-7: UNKNOWN_TOPIC_ID"),
        (103, BACK_OFF, "a.orders-7: INCONSISTENT_TOPIC_ID"),
        (120, BACK_OFF, "a.orders-7: TRANSACTION_ABORTABLE"),
        (-1, BACK_OFF, "a.orders-7: UNKNOWN_SERVER_ERROR"),
        (9999, BACK_OFF, "a.orders-7: error 9999"),
    ],
)
def test_what_follows_an_error_of_produce(code, then, reason):
    reaction = produce(code)
    assert (reaction.action, reaction.reason) == (then, reason)
    assert (reaction.halt is not None) == (then is STOP or code in UNCLEAR)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (10, "RECORD_TOO_LARGE"),
        (18, "RECORD_LIST_TOO_LARGE"),
        (32, "INVALID_TIMESTAMP"),
        (87, "INVALID_RECORD"),
    ],
)
def test_what_can_be_divided_is_taken_again_at_once(code, name):
    assert code in error_policy.TOO_LARGE_CODES | error_policy.INVALID_RECORD_CODES
    reaction = error_policy.react_to_produce_error(
        WHERE, code=code, message="no", offset=500, is_split=True
    )
    assert (reaction.action, reaction.halt) == (TAKE, None)
    assert reaction.reason == f"a.orders-7 refused a batch with {name}: it is split and sent again"


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (10, "raise max.message.bytes"),
        (18, "raise segment.bytes"),
        (29, "--operation Write"),
        (31, "IDEMPOTENT_WRITE"),
        (32, "message.timestamp.before.max.ms"),
        (53, "transactional ids"),
        (76, "compression.type=gzip"),
        (87, "check the broker's log"),
        (-1, "the broker's log"),
        (2, "the broker's log"),
        (9999, "the broker's log"),
    ],
)
def test_a_policy_stops_the_partition_with_what_to_do(code, advice):
    stop = produce(code, "the broker's words").halt
    assert (stop.cause, stop.retry_after_s) == (
        HaltCause.REFUSED_BY_TARGET,
        error_policy.HALT_RETRY_DELAY_S,
    )
    assert stop.message.startswith("a.orders-7 refused the batch of orders-7 offset 500 with ")
    assert "(the broker's words): " in stop.message
    assert advice in stop.message


def test_without_a_message_of_the_broker_no_brackets_are_left():
    assert "RECORD_TOO_LARGE: raise" in produce(10).halt.message


def test_the_brokers_words_go_before_the_codes_name():
    assert produce(6, "leader is away").reason == "a.orders-7: leader is away"


@pytest.mark.parametrize("code", [5, 6, 9, 74, 75, 78])
def test_moved_leaders_are_no_error_of_fetch(code):
    assert error_policy.react_to_fetch_error(WHERE, code=code, offset=500) is None


def test_an_offset_out_of_range_is_taken_anew():
    reaction = error_policy.react_to_fetch_error(WHERE, code=1, offset=500)
    assert reaction == ErrorReaction(action=TAKE, reason="orders-7 no longer has offset 500")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (2, "CORRUPT_MESSAGE"),
        (29, "grant the flow's principal READ"),
        (76, "the source broker cannot send a batch with this codec"),
        (-1, "error -1"),
        (9999, "error 9999"),
    ],
)
def test_other_errors_of_fetch_stop_the_partition_and_are_tried_again(code, why):
    reaction = error_policy.react_to_fetch_error(WHERE, code=code, offset=500)
    assert reaction is not None
    assert reaction.action is STOP
    assert reaction.halt is not None
    assert reaction.halt.cause is HaltCause.REFUSED_BY_SOURCE
    assert reaction.halt.retry_after_s == error_policy.HALT_RETRY_DELAY_S
    assert reaction.halt.message.startswith("orders-7 at offset 500: ")
    assert why in reaction.halt.message


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (3, "missing (deleted?)"),
        (56, "KAFKA_STORAGE_ERROR"),
        (100, "UNKNOWN_TOPIC_ID"),
        (103, "INCONSISTENT_TOPIC_ID"),
    ],
)
def test_what_may_pass_stops_the_partition_only_if_it_lasts(code, why):
    where = dataclasses.replace(WHERE, source_topic_id=b"1" * 16)
    reaction = error_policy.react_to_fetch_error(where, code=code, offset=500)
    assert reaction is not None
    assert reaction.halt is not None
    assert reaction.action is BACK_OFF
    assert reaction.halt.retry_after_s == error_policy.HALT_RETRY_DELAY_S
    assert reaction.halt.message.startswith(f"{reaction.reason}: ")
    assert suggested_commands.extract_remedy_from_message(reaction.halt.message)
    assert reaction.halt.cause is HaltCause.REFUSED_BY_SOURCE
    assert why in reaction.reason


def test_a_missing_topic_without_an_id_may_come_back_as_another_one():
    reaction = error_policy.react_to_fetch_error(WHERE, code=3, offset=500)
    assert reaction is not None
    assert reaction.halt is not None
    assert (reaction.action, reaction.halt.retry_after_s) == (BACK_OFF, None)
    assert "do not assign topic ids" in reaction.halt.message
    assert "mm2 topic reset" in suggested_commands.extract_remedy_from_message(
        reaction.halt.message
    )


def test_what_is_too_large_is_told_with_its_size_and_how_to_leave_it_out():
    stop = error_policy.react_to_produce_error(
        WHERE, code=10, message="", offset=500, next_offset=501, size=2_000_080
    ).halt
    left_out = "--partition 7 --from offset:501 --config clusters.yaml"
    assert f"skip it (mm2 topic reset 'a->b' orders {left_out})" in (stop.message)
    assert suggested_commands.extract_remedy_from_message(stop.message).endswith(
        "--add-config max.message.bytes=2000080"
    )


@pytest.mark.parametrize(
    ("code", "offered"),
    [(-1, True), (2, True), (10, True), (32, True), (29, False), (76, False), (9999, False)],
)
def test_only_where_the_batch_itself_may_be_at_fault_it_may_be_left_out(code, offered):
    stop = error_policy.react_to_produce_error(
        WHERE, code=code, message="", offset=500, next_offset=501
    ).halt
    assert ("skip it" in stop.message) == offered


@pytest.mark.parametrize("code", [*UNCLEAR, 10, 18, 29, 31, 32, 53, 87])
def test_a_refusal_ends_with_a_command(code):
    assert produce(code).halt.message.endswith(
        suggested_commands.extract_remedy_from_message(produce(code).halt.message)
    )
    assert suggested_commands.extract_remedy_from_message(produce(code).halt.message)


# Batches that cannot be read


@pytest.mark.parametrize(
    ("changed", "then"),
    [({}, BACK_OFF), ({"has_valid_checksum": True}, STOP), ({"by_transform": True}, STOP)],
    ids=["damaged", "sound", "by the transform"],
)
def test_only_what_is_damaged_is_read_again_before_it_is_a_stop(changed, then):
    found = UnreadableBatch(offset=50, reason="no", next_offset=51)
    reaction = error_policy.react_to_unreadable_batch(WHERE, dataclasses.replace(found, **changed))
    assert (reaction.action, reaction.reason) == (then, "orders-7 at source offset 50: no")
    assert reaction.halt == partition_halt_messages.build_unreadable_batch_halt(
        WHERE, dataclasses.replace(found, **changed)
    )
