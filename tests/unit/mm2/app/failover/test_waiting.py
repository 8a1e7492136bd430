"""Who writes still is told while both ends are waited for."""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base import errors
from mm2.app.failover import planning, tools, waiting
from mm2.core import filters, flows, naming
from mm2.core.failover import orders
from tests.fakes import copied_map, moves, two_sides

HERE, COPIED, DELTA = moves.HERE, moves.COPIED, moves.DELTA


class Copying(moves.Clock):
    """All is copied at once; somebody writes a record every ten seconds."""

    def __init__(self, sides: two_sides.FakeSides) -> None:
        super().__init__()
        self.sides = sides
        self.pause(0.0)

    def pause(self, seconds: float) -> None:
        super().pause(seconds)
        end = COPIED + int(self.s / 10)
        self.sides.source.log("orders", end)
        self.sides.target.log(self.sides.flow.remote_topic("orders"), end + DELTA)
        topics = self.sides.target.topics.topics
        name, made = naming.map_topic("east"), copied_map.log(HERE, through=end, delta=DELTA)
        topics[name] = [*topics[name], made[-1]] if name in topics else made


@pytest.mark.parametrize(
    "policy",
    [naming.DefaultReplicationPolicy(), naming.IdentityReplicationPolicy(source_alias="east")],
)
def test_under_one_name_it_may_be_on_the_other_cluster(policy: naming.ReplicationPolicy):
    topics = filters.topic_filter(("orders",))
    flow = flows.Flow(source="east", target="west", topics=topics, policy=policy)
    sides = two_sides.FakeSides(flow)
    clock = Copying(sides)
    unused: Any = None
    about = tools.Tools(
        both=sides,
        map_reader=sides.target.map_reader("east"),
        planner=planning.Planner(both=sides, find=lambda _: {}, clock=clock, timeout_s=10.0),
        stop=unused,
        running=unused,
        fence=unused,
        export=unused,
        clock=clock,
        pause=clock.pause,
        tell=lambda _: None,
        settle_s=20.0,
        wait_s=60.0,
    )
    with pytest.raises(errors.RetriableError) as caught:
        waiting.agree(about, moves.wanted(orders.Kind.PLANNED))
    said = str(caught.value)
    assert "orders-0 ended at 105 on both, and ends at 106 now: somebody writes there" in said
    assert ("What is written on west comes here, too: stop that" in said) is (
        not policy.renames_topics
    )
