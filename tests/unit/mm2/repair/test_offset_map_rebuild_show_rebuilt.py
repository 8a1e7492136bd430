from __future__ import annotations

import json

from connect_runtime.base.ids import TopicPartition
from mm2.copier.partition_log_comparison_messages import LogCompareResult
from mm2.offsets.offset_map_rebuild_plan import RebuildScope
from mm2.offsets.partition_log_alignment import AlignedRange, LogAlignment
from mm2.repair import offset_map_rebuild
from mm2.repair.offset_map_rebuild import RebuiltPartition

ONE, TWO = TopicPartition("orders", 1), TopicPartition("orders", 2)
MATCHED = LogAlignment(
    first_source=0,
    first_target=1,
    ranges=(AlignedRange(0, 9, 12, ((0, 3),)),),
    matched_offsets=1_008,
    bounded_offsets=3,
    unmatched_tail=2,
    producer_ids=(7,),
)
WELL = RebuiltPartition(
    partition=ONE,
    scope=RebuildScope.LOST,
    compared=LogCompareResult(
        partition=ONE, alignment=MATCHED, source_records=11, target_records=12
    ),
    stored=4,
)
ILL = RebuiltPartition(partition=TWO, scope=None, reason="there is no mirror")


def test_a_line_for_each_partition():
    first, second = list(offset_map_rebuild.format_rebuild_results([ILL, WELL]))[1:]
    assert " ".join(first.split()) == "orders 1 all of it 11 12 1,008 3 2 4 -"
    assert " ".join(second.split()) == "orders 2 - - - - - - 0 there is no mirror"
    assert (WELL.is_complete, ILL.is_complete) == (True, False)


def test_as_json():
    found = json.loads(json.dumps(offset_map_rebuild.rebuild_to_json("east->west", [ILL, WELL])))
    assert (found["version"], found["flow"]) == (1, "east->west")
    first, second = found["partitions"]
    assert (first["scope"], first["matched"], first["through"], first["stored"]) == (
        "lost",
        1_008,
        9,
        4,
    )
    assert (second["scope"], second["reason"]) == (None, "there is no mirror")
