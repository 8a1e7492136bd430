from __future__ import annotations

import json

from connect_runtime.base import ids
from mm2.app.offsets import rebuilding, show_rebuilt
from mm2.core.copy import match_messages
from mm2.core.offsets import matched_runs, rebuild_plan

ONE, TWO = ids.TopicPartition("orders", 1), ids.TopicPartition("orders", 2)
MATCHED = matched_runs.Matched(
    first_source=0,
    first_target=1,
    stretches=(matched_runs.Stretch(0, 9, 12, ((0, 3),)),),
    matched=1_008,
    unsure=3,
    tail=2,
    writers=(7,),
)
WELL = rebuilding.Rebuilt(
    partition=ONE,
    kind=rebuild_plan.Kind.LOST,
    compared=match_messages.Compared(partition=ONE, matched=MATCHED, source=11, target=12),
    stored=4,
)
ILL = rebuilding.Rebuilt(partition=TWO, kind=None, why="there is no mirror")


def test_a_line_for_each_partition():
    first, second = list(show_rebuilt.lines([ILL, WELL]))[1:]
    assert " ".join(first.split()) == "orders 1 all of it 11 12 1,008 3 2 4 -"
    assert " ".join(second.split()) == "orders 2 - - - - - - 0 there is no mirror"
    assert (WELL.is_well, ILL.is_well) == (True, False)


def test_as_json():
    found = json.loads(json.dumps(show_rebuilt.as_json("east->west", [ILL, WELL])))
    assert (found["version"], found["flow"]) == (1, "east->west")
    first, second = found["partitions"]
    assert (first["made_anew"], first["matched"], first["through"], first["stored"]) == (
        "lost",
        1_008,
        9,
        4,
    )
    assert (second["made_anew"], second["why"]) == (None, "there is no mirror")
