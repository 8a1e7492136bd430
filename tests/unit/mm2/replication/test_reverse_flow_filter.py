from __future__ import annotations

from mm2.replication import reverse_flow_filter
from mm2.replication.reverse_flow_filter import ReverseFlowFilter


def test_who_writes_without_an_id_is_known_from_the_start():
    assert ReverseFlowFilter().is_reverse_by_id == {reverse_flow_filter.NO_PRODUCER_ID: False}


def test_whoever_was_asked_of_and_is_not_theirs_is_local():
    known = ReverseFlowFilter()
    known.add_resolved_producers([4, 5, 6], reverse_producers={5})
    assert [known.is_reverse_by_id.get(each) for each in (4, 5, 6, 7)] == [False, True, False, None]


def test_ids_that_were_not_asked_of_may_be_told_too():
    known = ReverseFlowFilter()
    known.add_resolved_producers([4], reverse_producers={9})
    assert known.is_reverse_by_id[9] is True


def test_of_locals_the_oldest_are_forgotten_and_theirs_never(monkeypatch):
    monkeypatch.setattr(reverse_flow_filter, "LOCAL_PRODUCERS_MAX", 2)
    known = ReverseFlowFilter()
    known.add_resolved_producers([1, 2], reverse_producers={1})
    known.add_resolved_producers([3, 4], reverse_producers=())
    known.add_resolved_producers([5], reverse_producers=())
    assert known.is_reverse_by_id == {
        reverse_flow_filter.NO_PRODUCER_ID: False,
        1: True,
        4: False,
        5: False,
    }
