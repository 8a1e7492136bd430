"""The sequences are those of Java's tests of lost assignments, with its numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from connect_runtime.core.assignment import balance, lost, work
from tests.fakes import connect_group

D_MS = connect_group.DELAY_MAX_MS
START_MS = 1_790_000_000_000


def part(number: int) -> work.Work:
    """Two connectors and four tasks, others for every number."""
    return work.Work(
        connectors=(f"c{2 * number}", f"c{2 * number + 1}"),
        tasks=connect_group.tasks("t", 4, start=4 * number),
    )


LOST = part(1)


@dataclass(slots=True)
class Case:
    """Three workers; the second is gone with its part, and the clock stands at the start."""

    now_ms: int = START_MS
    delay_max_ms: int = D_MS
    waiting: lost.Waiting = field(default_factory=lost.Waiting)
    members: dict[str, work.Work] = field(default_factory=lambda: {"w0": part(0), "w2": part(2)})
    before: frozenset[str] = frozenset({"w0", "w1", "w2"})

    def judge(self, items: work.Work = LOST) -> lost.Verdict:
        verdict = lost.judge(
            items.items,
            balance.Loads.of(self.members, without=frozenset()),
            self.waiting,
            members_before=self.before,
            times=lost.Times(now_ms=self.now_ms, delay_max_ms=self.delay_max_ms),
        )
        self.waiting = verdict.waiting
        self.before = frozenset(self.members)
        return verdict

    @property
    def delay_ms(self) -> int:
        return 0 if self.waiting.scheduled_ms is None else self.waiting.scheduled_ms - self.now_ms


def rests(verdict: lost.Verdict) -> bool:
    return not verdict.reassign and not verdict.given


def test_nothing_lost_ends_all_waiting():
    case = Case(waiting=lost.Waiting(candidates=("w9",), scheduled_ms=START_MS + 5))
    assert rests(case.judge(work.NO_WORK))
    assert case.waiting == lost.Waiting()


def after_the_first_half(*, joined: str | None = None) -> Case:
    case = Case()
    if joined is not None:
        case.members[joined] = work.NO_WORK
    assert rests(case.judge())
    assert case.delay_ms == D_MS
    case.now_ms += D_MS // 2
    return case


def test_what_a_worker_lost_waits_and_goes_to_the_one_that_came_back():
    case = after_the_first_half()
    assert list(case.waiting.candidates) == []
    case.members["w1"] = work.NO_WORK
    assert rests(case.judge())
    assert list(case.waiting.candidates) == ["w1"]
    assert case.delay_ms == D_MS // 2
    case.now_ms += D_MS // 2
    verdict = case.judge()
    assert verdict.given == {"w1": list(LOST.items)}
    assert not verdict.reassign
    assert case.waiting == lost.Waiting()


def test_what_nobody_came_back_for_is_handed_out_anew():
    case = after_the_first_half()
    assert rests(case.judge())
    assert case.delay_ms == D_MS // 2
    case.now_ms += D_MS // 2
    verdict = case.judge()
    assert verdict.reassign == LOST.items
    assert case.waiting == lost.Waiting()


def test_two_that_came_share_what_was_lost():
    """They have got new work since, which does not matter."""
    case = after_the_first_half(joined="w3")
    assert list(case.waiting.candidates) == ["w3"]
    case.members["w1"] = work.NO_WORK
    assert rests(case.judge())
    assert list(case.waiting.candidates) == ["w3", "w1"]
    case.members |= {"w1": part(5), "w3": part(6)}
    case.now_ms += D_MS // 2
    first, second = connect_group.tasks("t", 2, start=4), connect_group.tasks("t", 2, start=6)
    assert case.judge().given == {
        "w3": ["c2", first[0], second[0]],
        "w1": ["c3", first[1], second[1]],
    }
    assert case.waiting == lost.Waiting()


def test_a_candidate_that_left_again_gets_nothing():
    case = after_the_first_half()
    case.members["w1"] = work.NO_WORK
    case.judge()
    assert list(case.waiting.candidates) == ["w1"]
    del case.members["w1"]
    case.now_ms += D_MS // 2
    assert case.judge().reassign == LOST.items
    assert case.waiting == lost.Waiting()


def test_with_no_delay_allowed_lost_work_is_handed_out_at_once():
    case = Case(delay_max_ms=0)
    assert case.judge().reassign == LOST.items
    assert case.waiting == lost.Waiting()


def test_with_all_members_present_nothing_was_lost_but_an_answer():
    case = Case(before=frozenset({"w0"}))
    assert case.judge().reassign == LOST.items
    assert case.waiting == lost.Waiting()


def test_while_work_rests_more_of_it_does_not_make_it_wait_longer():
    case = after_the_first_half()
    case.now_ms += 7
    assert rests(case.judge(LOST.then(part(0))))
    assert case.delay_ms == D_MS // 2 - 7


def test_a_delay_is_cut_to_a_longest_one_that_became_shorter():
    case = after_the_first_half()
    case.delay_max_ms = 1000
    assert rests(case.judge())
    assert case.delay_ms == 1000


@pytest.mark.parametrize("before", [frozenset({"w0"}), frozenset({"w0", "gone"})])
def test_after_a_revocation_only_a_departure_has_them_wait(before):
    revoked = lost.Waiting(revoked_before=True)
    case = Case(before=before, waiting=revoked)
    assert rests(case.judge(work.NO_WORK))
    if "gone" in before:
        assert case.delay_ms == D_MS
    else:
        assert case.waiting == revoked


def test_when_the_delay_ends_the_next_revocation_is_the_first_again():
    expired = lost.Waiting(scheduled_ms=START_MS, revoked_before=True)
    case = Case(waiting=expired)
    case.judge(work.NO_WORK)
    assert case.waiting == lost.Waiting()
