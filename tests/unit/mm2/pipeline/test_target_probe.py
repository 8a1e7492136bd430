"""The probe finds each fault of a broker that has it, and none on one that has none."""

from __future__ import annotations

import pytest

from connect_runtime.base import errors
from mm2.core.capabilities import Answer, Check, Outcome
from mm2.pipeline import target_probe
from mm2.pipeline.fenced_partition import Owner, Refused


class Broker:
    """One partition under Kafka's rules, but for its `faults`."""

    def __init__(self, *faults: str) -> None:
        self.faults = set(faults)
        self.log: list[tuple[Owner, int]] = []
        self.owner = Owner(id=7, epoch=-1)
        self.fenced_below = -1
        self.next_sequence: dict[Owner, int] = {}
        self.sends = self.moves_at = 0

    def new_owner(self) -> Owner | Refused:
        if "denied" in self.faults:
            return Refused(code=53)
        self.owner = Owner(id=7, epoch=self.owner.epoch + 1)
        return self.owner

    def new_plain_owner(self) -> Owner | Refused:
        return Refused(code=31) if "plain denied" in self.faults else Owner(id=9, epoch=0)

    def commit_empty(self, owner: Owner) -> Refused | None:
        if "scratch topic denied" in self.faults:
            return Refused(code=29)
        if "scratch topic unheard of" in self.faults:
            return Refused(code=3)
        self.log.append((owner, -1))
        self.fenced_below = owner.epoch
        return None

    def marker_seen(self, owner: Owner) -> bool:
        return "marker lost" not in self.faults

    def end(self) -> int:
        return len(self.log)

    def send(self, owner: Owner, sequence: int) -> int | Refused:
        self.sends += 1
        if self.sends == self.moves_at:
            return Refused(code=6)
        if "silent" in self.faults:
            raise errors.RetriableError("nothing within 20 s")
        if owner.id == 7 and owner.epoch < self.fenced_below and "no fence" not in self.faults:
            return Refused(code=47)
        if owner.epoch > 0 and "shuts itself out" in self.faults:
            return Refused(code=47)
        expected = self.next_sequence.get(owner, 0)
        if sequence < expected and "no state" not in self.faults:
            return self.log.index((owner, sequence))
        if sequence > expected and "gaps" not in self.faults:
            return Refused(code=45)
        self.next_sequence[owner] = max(expected, sequence + 1)
        self.log.append((owner, sequence))
        return len(self.log) - 1 + ("other offsets" in self.faults)

    def unchanged(self, offset: int) -> bool:
        return "rewrites" not in self.faults


def found(*faults: str) -> dict[Check, Answer]:
    probe = target_probe.TargetProbe(Broker(*faults))
    probe.run()
    return probe.answers


def test_a_broker_without_faults_holds_everything():
    assert {answer.outcome for answer in found().values()} == {Outcome.HOLDS}
    assert set(found()) == set(Check)


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("marker lost", Check.MARKER),
        ("other offsets", Check.OFFSET),
        ("rewrites", Check.UNCHANGED),
        ("no state", Check.DUPLICATE),
        ("gaps", Check.SEQUENCE),
        ("no fence", Check.FENCE),
        ("shuts itself out", Check.SUCCESSOR),
    ],
)
def test_each_fault_is_found_where_it_is(fault, check):
    answers = found(fault)
    failed = [each for each, answer in answers.items() if answer.outcome is Outcome.FAILS]

    assert failed == [check]
    assert answers[check].detail


def test_without_the_transactional_id_all_is_tried_that_needs_none():
    answers = found("denied")

    assert answers.pop(Check.TRANSACTIONAL_ID).outcome is Outcome.DENIED
    assert set(answers) == {Check.OFFSET, Check.UNCHANGED, Check.DUPLICATE, Check.SEQUENCE}
    assert {answer.outcome for answer in answers.values()} == {Outcome.HOLDS}
    assert found("denied", "plain denied")[Check.OFFSET].outcome is Outcome.UNKNOWN


def test_a_denied_scratch_topic_says_nothing_of_the_mirrors():
    assert found("scratch topic denied")[Check.TRANSACTIONAL_ID].outcome is Outcome.UNKNOWN


# A batch, the same again, one behind a gap, the older owner's, the newer one's.
@pytest.mark.parametrize("moves_at", [1, 2, 3, 4, 5])
def test_a_leader_that_moves_meanwhile_fails_nothing(moves_at):
    broker = Broker()
    broker.moves_at = moves_at
    probe = target_probe.TargetProbe(broker)
    probe.run()
    outcomes = [answer.outcome for answer in probe.answers.values()]
    assert Outcome.FAILS not in outcomes
    (unknown,) = {a.detail for a in probe.answers.values() if a.outcome is Outcome.UNKNOWN}
    assert unknown.startswith("the broker answered NOT_LEADER_OR_FOLLOWER (6): probe again")


def test_a_coordinator_that_does_not_know_the_topic_yet_denies_nothing():
    answers = found("scratch topic unheard of")
    assert answers[Check.TRANSACTIONAL_ID].outcome is Outcome.UNKNOWN


def test_what_was_found_before_nobody_answered_any_more_is_kept():
    answers = found("silent")

    assert answers[Check.MARKER].outcome is Outcome.HOLDS
    assert answers[Check.FENCE] == Answer(outcome=Outcome.UNKNOWN, detail="nothing within 20 s")
