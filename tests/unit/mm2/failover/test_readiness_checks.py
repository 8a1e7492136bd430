from __future__ import annotations

import pytest

from connect_runtime.kafka.client_errors import UnreachableError
from mm2.failover import readiness_checks
from mm2.failover.failover_request import ClusterIds
from mm2.topics.flow_config import Flow
from tests.fakes.two_sides import FakeSides


@pytest.fixture
def sides() -> FakeSides:
    made = FakeSides(Flow(source="east", target="west"))
    made.source.cluster.identity, made.target.cluster.identity = "idE", "idW"
    return made


def look(sides, *, lost=False):
    return readiness_checks.fetch_cluster_ids(sides, lost=lost, timeout_s=5.0)


def test_both_tell_who_they_are(sides):
    assert look(sides) == ClusterIds(origin="idE", destination="idW")


def test_a_source_that_is_silent_or_lost_tells_nothing(sides):
    sides.source.cluster.away = True
    assert look(sides) == ClusterIds(destination="idW")
    assert look(sides, lost=True) == ClusterIds(destination="idW")
    assert sides.source.admin.calls == ["cluster_id"]


def test_the_target_has_to_answer(sides):
    sides.target.cluster.away = True
    with pytest.raises(UnreachableError):
        look(sides)
