from __future__ import annotations

import pytest

from mm2.core.copy import messages
from mm2.pipeline import leaders
from tests.fakes import copying, metadata, taking

WHERE = taking.where()


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        ({}, {}, ""),
        ({"leader": -1}, {}, "source partition orders-4 has no leader"),
        ({}, {"leader": -1}, "mirror partition a.orders-4 has no leader"),
        ({"leader": 7}, {"leader": -1}, "source partition orders-4 has no leader"),
        (
            {},
            {"error_code": 3},
            "mirror partition a.orders-4 has no leader: UNKNOWN_TOPIC_OR_PARTITION (3)",
        ),
    ],
    ids=["both", "source", "mirror", "neither", "no topic"],
)
def test_the_side_without_a_leader_is_named(source, target, told):
    found = leaders.missing(
        WHERE,
        source=metadata.view(WHERE.topic, **source),
        target=metadata.view(WHERE.remote_topic, **target),
    )
    assert found == told


def test_a_copy_without_a_leader_waits_for_one():
    gauge = messages.gauge(0, copying.begun().copy, now_s=0.0, wall_ms=0)
    told = leaders.told(gauge, "no leader")
    assert (gauge.phase, told.phase, told.reason) == ("copying", "waiting", "no leader")
    assert leaders.told(gauge, "") is gauge


def test_what_does_not_copy_has_its_own_reason():
    world = copying.begun()
    world.do(world.copy.source_refused(29, world.now_s))
    gauge = messages.gauge(0, world.copy, now_s=0.0, wall_ms=0)
    assert gauge.phase == "stopped"
    assert leaders.told(gauge, "no leader") is gauge
