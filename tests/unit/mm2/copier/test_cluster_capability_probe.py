"""The probe finds each fault of a broker that has it, and none on one that has none."""

from __future__ import annotations

import pytest

from connect_runtime.base.errors import RetriableError
from mm2.copier.cluster_capability_probe import TargetProbe
from mm2.copier.partition_fencer import BrokerRefusal, ProducerIdAndEpoch
from mm2.replication.cluster_capabilities import (
    CapabilityCheck,
    CapabilityCheckResult,
    CheckOutcome,
)


class Broker:
    """One partition under Kafka's rules, but for its `faults`."""

    def __init__(self, *faults: str) -> None:
        self.faults = set(faults)
        self.log: list[tuple[ProducerIdAndEpoch, int]] = []
        self.owner = ProducerIdAndEpoch(id=7, epoch=-1)
        self.fenced_below = -1
        self.next_sequence: dict[ProducerIdAndEpoch, int] = {}
        self.sends = self.moves_at = 0

    def init_transactional_producer(self) -> ProducerIdAndEpoch | BrokerRefusal:
        if "denied" in self.faults:
            return BrokerRefusal(code=53)
        self.owner = ProducerIdAndEpoch(id=7, epoch=self.owner.epoch + 1)
        return self.owner

    def init_idempotent_producer(self) -> ProducerIdAndEpoch | BrokerRefusal:
        return (
            BrokerRefusal(code=31)
            if "plain denied" in self.faults
            else ProducerIdAndEpoch(id=9, epoch=0)
        )

    def commit_empty_transaction(self, owner: ProducerIdAndEpoch) -> BrokerRefusal | None:
        if "scratch topic denied" in self.faults:
            return BrokerRefusal(code=29)
        if "scratch topic unheard of" in self.faults:
            return BrokerRefusal(code=3)
        self.log.append((owner, -1))
        self.fenced_below = owner.epoch
        return None

    def is_marker_readable(self, owner: ProducerIdAndEpoch) -> bool:
        return "marker lost" not in self.faults

    def find_end_offset(self) -> int:
        return len(self.log)

    def produce_record(self, owner: ProducerIdAndEpoch, sequence: int) -> int | BrokerRefusal:
        self.sends += 1
        if self.sends == self.moves_at:
            return BrokerRefusal(code=6)
        if "silent" in self.faults:
            raise RetriableError("nothing within 20 s")
        if owner.id == 7 and owner.epoch < self.fenced_below and "no fence" not in self.faults:
            return BrokerRefusal(code=47)
        if owner.epoch > 0 and "shuts itself out" in self.faults:
            return BrokerRefusal(code=47)
        expected = self.next_sequence.get(owner, 0)
        if sequence < expected and "no state" not in self.faults:
            return self.log.index((owner, sequence))
        if sequence > expected and "gaps" not in self.faults:
            return BrokerRefusal(code=45)
        self.next_sequence[owner] = max(expected, sequence + 1)
        self.log.append((owner, sequence))
        return len(self.log) - 1 + ("other offsets" in self.faults)

    def is_batch_stored_unchanged(self, offset: int) -> bool:
        return "rewrites" not in self.faults


def found(*faults: str) -> dict[CapabilityCheck, CapabilityCheckResult]:
    probe = TargetProbe(Broker(*faults))
    probe.run()
    return probe.results


def test_a_broker_without_faults_holds_everything():
    assert {answer.outcome for answer in found().values()} == {CheckOutcome.HOLDS}
    assert set(found()) == set(CapabilityCheck)


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("marker lost", CapabilityCheck.MARKER),
        ("other offsets", CapabilityCheck.OFFSET),
        ("rewrites", CapabilityCheck.UNCHANGED),
        ("no state", CapabilityCheck.DUPLICATE),
        ("gaps", CapabilityCheck.SEQUENCE),
        ("no fence", CapabilityCheck.FENCE),
        ("shuts itself out", CapabilityCheck.SUCCESSOR),
    ],
)
def test_each_fault_is_found_where_it_is(fault, check):
    answers = found(fault)
    failed = [each for each, answer in answers.items() if answer.outcome is CheckOutcome.FAILS]

    assert failed == [check]
    assert answers[check].detail


def test_without_the_transactional_id_all_is_tried_that_needs_none():
    answers = found("denied")

    assert answers.pop(CapabilityCheck.TRANSACTIONAL_ID).outcome is CheckOutcome.DENIED
    assert set(answers) == {
        CapabilityCheck.OFFSET,
        CapabilityCheck.UNCHANGED,
        CapabilityCheck.DUPLICATE,
        CapabilityCheck.SEQUENCE,
    }
    assert {answer.outcome for answer in answers.values()} == {CheckOutcome.HOLDS}
    assert found("denied", "plain denied")[CapabilityCheck.OFFSET].outcome is CheckOutcome.UNKNOWN


def test_a_denied_scratch_topic_says_nothing_of_the_mirrors():
    assert (
        found("scratch topic denied")[CapabilityCheck.TRANSACTIONAL_ID].outcome
        is CheckOutcome.UNKNOWN
    )


# A batch, the same again, one behind a gap, the older owner's, the newer one's.
@pytest.mark.parametrize("moves_at", [1, 2, 3, 4, 5])
def test_a_leader_that_moves_meanwhile_fails_nothing(moves_at):
    broker = Broker()
    broker.moves_at = moves_at
    probe = TargetProbe(broker)
    probe.run()
    outcomes = [answer.outcome for answer in probe.results.values()]
    assert CheckOutcome.FAILS not in outcomes
    (unknown,) = {a.detail for a in probe.results.values() if a.outcome is CheckOutcome.UNKNOWN}
    assert unknown.startswith(
        "the broker returned NOT_LEADER_OR_FOLLOWER (6), a transient error: probe again"
    )


def test_a_coordinator_that_does_not_know_the_topic_yet_denies_nothing():
    answers = found("scratch topic unheard of")
    assert answers[CapabilityCheck.TRANSACTIONAL_ID].outcome is CheckOutcome.UNKNOWN


def test_what_was_found_before_nobody_answered_any_more_is_kept():
    answers = found("silent")

    assert answers[CapabilityCheck.MARKER].outcome is CheckOutcome.HOLDS
    assert answers[CapabilityCheck.FENCE] == CapabilityCheckResult(
        outcome=CheckOutcome.UNKNOWN, detail="nothing within 20 s"
    )
