from __future__ import annotations

import pytest

from mm2.replication import follower_fetching
from mm2.replication.follower_fetching import PreferredReadReplicas

KEY = ("orders", 3)
LEADER, NEAR = 1, 2
BROKERS = {1, 2, 3}


class Reading:
    """One partition, led by broker 1, whose near replica is broker 2."""

    def __init__(self, rack: str = "b", max_age_s: float = 60.0) -> None:
        self.replicas = PreferredReadReplicas(rack=rack, max_age_s=max_age_s)

    def at(self, now_s: float, *, leader: int = LEADER, brokers=BROKERS) -> tuple[int, bool]:
        found = self.replicas.choose_broker(KEY, leader, brokers=brokers, now_s=now_s)
        self.replicas.check_invariants()
        return found

    def named(self, now_s: float) -> None:
        assert self.at(now_s) == (LEADER, False)
        self.replicas.set_preferred_replica(KEY, NEAR, now_s)


def test_without_a_rack_every_partition_is_its_leaders():
    reading = Reading(rack="")
    assert reading.at(0.0) == (LEADER, False)
    reading.replicas.set_preferred_replica(KEY, NEAR, 0.0)
    assert reading.at(1.0) == (LEADER, False)
    assert not reading.replicas.is_preferred_replica(KEY, NEAR)


def test_the_leader_is_told_the_rack_and_its_word_is_followed():
    reading = Reading()
    reading.named(10.0)
    assert reading.at(10.1) == (NEAR, False)
    assert reading.replicas.is_preferred_replica(KEY, NEAR)
    assert not reading.replicas.is_preferred_replica(KEY, LEADER)


def test_after_the_metadatas_age_the_leader_is_asked_again():
    reading = Reading(max_age_s=60.0)
    reading.named(10.0)
    assert reading.at(69.9) == (NEAR, False)
    assert reading.at(70.0) == (LEADER, False)
    assert not reading.replicas.is_preferred_replica(KEY, NEAR)


def test_a_new_leader_ends_it():
    reading = Reading()
    reading.named(0.0)
    assert reading.at(1.0, leader=3) == (3, False)
    assert reading.at(1.0) == (LEADER, False)


def test_while_the_replica_is_unknown_the_leader_serves_alone():
    """Told our rack it would name the same one at once again, and send nothing."""
    reading = Reading()
    reading.named(2.0)
    assert reading.at(2.0, brokers={1, 3}) == (LEADER, True)
    assert not reading.replicas.is_preferred_replica(KEY, NEAR)
    assert reading.at(3.9) == (LEADER, True)
    reading.named(4.0)
    assert reading.at(4.0) == (NEAR, False)


def test_a_replica_that_goes_away_ends_it():
    reading = Reading()
    reading.named(0.0)
    assert reading.at(1.0) == (NEAR, False)
    assert reading.at(2.0, brokers={1, 3}) == (LEADER, True)
    assert reading.at(4.0, brokers={1, 3}) == (LEADER, False)


def test_a_replica_that_disappoints_leaves_the_leader_alone_for_longer_and_longer():
    reading = Reading(max_age_s=10.0)
    now_s, waits = 0.0, []
    for _ in range(5):
        reading.named(now_s)
        reading.replicas.mark_replica_unavailable(KEY, now_s)
        assert reading.at(now_s) == (LEADER, True)
        waited_s = next(s for s in range(1, 30) if reading.at(now_s + s) == (LEADER, False))
        waits.append(waited_s)
        now_s += waited_s
    assert waits == [2, 4, 8, 10, 10]


def test_records_from_the_replica_make_up_for_its_failures():
    reading = Reading()
    for _ in range(3):
        reading.named(0.0)
        reading.replicas.mark_replica_unavailable(KEY, 0.0)
        assert reading.at(100.0) == (LEADER, False)
        reading.named(100.0)
        reading.replicas.record_replica_success(KEY)
        reading.replicas.mark_replica_unavailable(KEY, 100.0)
        assert reading.at(100.0 + follower_fetching.LEADER_ONLY_INITIAL_S) == (LEADER, False)
        reading = Reading()


def test_a_leader_that_disappoints_is_nobody_elses_fault():
    reading = Reading()
    assert reading.at(0.0) == (LEADER, False)
    reading.replicas.mark_replica_unavailable(KEY, 0.0)
    assert reading.at(0.0) == (LEADER, False)


@pytest.mark.parametrize("named", [LEADER, NEAR])
def test_a_leader_that_names_itself_is_read(named):
    reading = Reading()
    reading.at(0.0)
    reading.replicas.set_preferred_replica(KEY, named, 0.0)
    assert reading.at(1.0) == (named, False)
