"""What is told of partitions of which nothing can be made anew."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mm2.app.offsets import rebuilding
from mm2.core.copy import match_messages
from mm2.core.offsets import rebuild_plan
from tests.fakes import copied_map, plugin_contexts, taking

PLACE = copied_map.T7


class Questions:
    """To a mirror whose log begins there."""

    def __init__(self, start: int) -> None:
        self.start = start

    def leader(self, topic: str, partition: int) -> int:
        return 1

    def ask(self, to: object, message: object) -> Any:
        found = SimpleNamespace(error_code=0, offset=self.start)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[found])])


@pytest.mark.parametrize(("start", "well"), [(0, True), (40, False)])
def test_a_mirror_from_which_all_was_deleted_is_not_one_that_never_held_anything(start, well):
    tools: Any = SimpleNamespace(
        clock=plugin_contexts.Clock(),
        timeout_s=60.0,
        tell=lambda line: None,
        questions=lambda: contextlib.nullcontext(Questions(start)),
    )
    run = rebuilding.Rebuilding(cast(Any, tools), writes=False)
    run._setups[PLACE] = taking.where()
    run._kinds[PLACE] = rebuild_plan.Wanted(kind=rebuild_plan.Kind.LOST)
    (bounds,) = run._bounds([PLACE])
    run._compared(match_messages.Compared(partition=bounds.partition, source=3))
    found = run.found[PLACE]
    assert (found.is_well, "--new-era" in found.why) == (well, not well)
