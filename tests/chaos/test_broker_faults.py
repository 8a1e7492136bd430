"""Brokers of either side are restarted, killed and frozen while data moves."""

from __future__ import annotations

from random import Random

import pytest

from mm2.sandbox import sandbox_cluster
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.chaos import storm
from tests.chaos.faults import brokers
from tests.chaos.faults.brokers import Kind
from tests.chaos.storm import Storm

pytestmark = [pytest.mark.chaos, pytest.mark.full]

ALL = [storm.broker(side, kind) for side in ("west", "east") for kind in Kind]


@pytest.mark.timeout(900)
def test_each_fault_strikes_the_target_and_the_source(tmp_path, two_clusters, seed):
    strikes = list(ALL)
    Random(seed).shuffle(strikes)
    with Storm(tmp_path, two_clusters, seed=seed) as weather:
        weather.hit(strikes)
        weather.settle_and_judge()
        assert len(weather.runs) == 1  # it has outlived all of them


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_thirty_faults_of_brokers(tmp_path, two_clusters, seed):
    strikes = list(ALL) * 5
    Random(seed).shuffle(strikes)
    with Storm(tmp_path, two_clusters, seed=seed) as weather:
        weather.hit(strikes)
        weather.settle_and_judge()


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_leaders_move_between_three_brokers(tmp_path, seed):
    """Replicated topics, two in-sync replicas asked for: killing one broker moves its leaders."""
    settings = {"min.insync.replicas": "2"}
    pair = (
        SandboxCluster("east", brokers=3, settings=settings),
        SandboxCluster("west", brokers=3, settings=settings),
    )
    random = Random(seed)
    try:
        sandbox_cluster.start_clusters(pair, timeout_s=180.0)
        with Storm(tmp_path, pair, seed=seed, replication_factor=3) as weather:
            for _ in range(8):
                weather.move_on()
                side = random.choice(pair)
                node = side.brokers[random.randrange(1, 4)]
                strike_one(node, random)
            weather.move_on()
            weather.settle_and_judge()
    finally:
        for each in pair:
            each.close()


def strike_one(node, random: Random) -> None:
    match random.choice(list(Kind)):
        case Kind.RESTART:
            node.restart(timeout_s=120.0)
        case Kind.KILL:
            node.kill()
            brokers.pause(random.uniform(0.3, 5.0))
            node.start(timeout_s=120.0)
        case Kind.FREEZE:
            node.freeze()
            brokers.pause(random.uniform(0.3, 15.0))
            node.unfreeze()
