from __future__ import annotations

import pytest

from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app.looks import identities
from mm2.core import flows
from mm2.core.failover import orders
from tests.fakes import two_sides


@pytest.fixture
def sides() -> two_sides.FakeSides:
    made = two_sides.FakeSides(flows.Flow(source="east", target="west"))
    made.source.cluster.identity, made.target.cluster.identity = "idE", "idW"
    return made


def look(sides, *, lost=False):
    return identities.look(sides, lost=lost, timeout_s=5.0)


def test_both_tell_who_they_are(sides):
    assert look(sides) == orders.Clusters(origin="idE", destination="idW")


def test_a_source_that_is_silent_or_lost_tells_nothing(sides):
    sides.source.cluster.away = True
    assert look(sides) == orders.Clusters(destination="idW")
    assert look(sides, lost=True) == orders.Clusters(destination="idW")
    assert sides.source.admin.calls == ["cluster_id"]


def test_the_target_has_to_answer(sides):
    sides.target.cluster.away = True
    with pytest.raises(kafka_errors.UnreachableError):
        look(sides)
