"""SIGKILL to every kind of process behind `mm2 run`, at random moments, under traffic.

The judge is an ordinary client that reads both logs: nothing lost, nothing twice.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.chaos import storm
from tests.chaos.faults.mirror_processes import Kind
from tests.chaos.storm import Storm

pytestmark = pytest.mark.chaos


SOME = (Kind.DRIVER, Kind.DAEMON)
"""One whose death ends the run, and one that takes all copies with it."""


@pytest.mark.timeout(900)
def test_a_run_is_killed_and_then_its_copies_all_at_once(tmp_path, two_clusters, seed):
    kill_all(tmp_path, two_clusters, SOME, seed=seed)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_twenty_kills_of_mixed_kinds(tmp_path, two_clusters, seed):
    kinds = list(Kind) * 5
    Random(seed).shuffle(kinds)
    kill_all(tmp_path, two_clusters, kinds, seed=seed)


def kill_all(folder, pair, kinds, *, seed: int) -> None:
    with Storm(folder, pair, seed=seed) as weather:
        weather.hit([storm.process(kind) for kind in kinds])
        weather.settle_and_judge()
