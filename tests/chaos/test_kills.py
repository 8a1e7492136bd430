"""SIGKILL to every kind of process behind `mm2 run`, at random moments, under traffic.

The judge is an ordinary client that reads both logs: nothing lost, nothing twice.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.chaos import storm
from tests.chaos.faults import mirror_processes as faults

pytestmark = pytest.mark.chaos


@pytest.mark.timeout(900)
def test_each_kind_of_process_is_killed_once(tmp_path, two_clusters, seed):
    kill_all(tmp_path, two_clusters, seed=seed, times=1)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_twenty_kills_of_mixed_kinds(tmp_path, two_clusters, seed):
    kill_all(tmp_path, two_clusters, seed=seed, times=5)


def kill_all(folder, pair, *, seed: int, times: int) -> None:
    kinds = list(faults.Kind) * times
    Random(seed).shuffle(kinds)
    with storm.Storm(folder, pair, seed=seed) as weather:
        weather.hit([storm.process(kind) for kind in kinds])
        weather.settle_and_judge()
