from __future__ import annotations

import json

from connect_runtime.base.ids import TopicPartition
from mm2.copier import partition_log_comparison_messages
from mm2.copier.partition_log_comparison_messages import (
    LogCompareRange,
    LogCompareRequest,
    LogCompareResult,
    LogComparisonResultDecoder,
)
from mm2.offsets.partition_log_alignment import AlignedRange, LogAlignment

ORDERS = TopicPartition("orders", 3)


def sent(message):
    return json.loads(json.dumps(message))


def test_what_is_asked_arrives():
    bounds = (
        LogCompareRange(partition=ORDERS),
        LogCompareRange(
            partition=ORDERS, source_end=5, target_end=7, reverse_producers=frozenset({9, 4})
        ),
    )
    asked = LogCompareRequest(ranges=bounds, memory_bytes=7_000, all_differ=True)
    assert (
        partition_log_comparison_messages.decode_compare_request(
            sent(partition_log_comparison_messages.encode_compare_request(asked))
        )
        == asked
    )


def answered(*found):
    answers = LogComparisonResultDecoder()
    got = []
    for each in found:
        for message in partition_log_comparison_messages.encode_compare_result(each):
            told = answers.add_message(sent(message))
            if told is not None:
                got.append(told)
    return got


def test_what_was_found_arrives():
    stretches = (
        AlignedRange(0, 9, 12, ((0, 3), (5, 2))),
        AlignedRange(9, 20, 30, ((9, 2),), below=4, above=5),
    )
    matched = LogAlignment(
        first_source=0,
        first_target=1,
        ranges=stretches,
        matched_offsets=8,
        bounded_offsets=3,
        unmatched_tail=2,
        producer_ids=(7, -1),
    )
    found = LogCompareResult(
        partition=ORDERS, alignment=matched, source_records=11, target_records=12
    )
    nothing = LogCompareResult(
        partition=ORDERS, source_records=1, target_records=2, failure="it is damaged"
    )
    assert answered(found, nothing, found) == [found, nothing, found]


def test_long_stretches_come_in_pieces():
    runs = tuple((at, -at) for at in range(50_000))
    matched = LogAlignment(
        first_source=0,
        first_target=0,
        ranges=(AlignedRange(0, 60_000, 60_001, runs),),
        matched_offsets=1,
        bounded_offsets=0,
        unmatched_tail=0,
        producer_ids=(),
    )
    found = LogCompareResult(partition=ORDERS, alignment=matched)
    assert len(list(partition_log_comparison_messages.encode_compare_result(found))) == 4
    (got,) = answered(found)
    assert got.alignment is not None
    assert sum((each.runs for each in got.alignment.ranges), ()) == runs
    assert got.alignment.source_end == 60_000
