from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.core.assignment import balance, work
from tests.fakes import connect_group


def numbered(first: int, last: int) -> list[str]:
    return [f"c{each}" for each in range(first, last + 1)]


def loads(**held: work.Work) -> balance.Loads:
    return balance.Loads.of(held, without=frozenset())


# Handing out


def test_even_members_take_turns_in_the_order_of_their_ids():
    """As the peer's test: two each, five more."""
    held = {"w0": numbered(0, 1), "w1": numbered(2, 3), "w2": numbered(4, 5)}
    balance.spread(held, numbered(6, 10))
    assert held == {
        "w0": ["c0", "c1", "c6", "c9"],
        "w1": ["c2", "c3", "c7", "c10"],
        "w2": ["c4", "c5", "c8"],
    }


def test_uneven_members_are_filled_up_from_the_least_loaded():
    held = {"w0": numbered(0, 1), "w1": numbered(2, 4), "w2": numbered(5, 8), "w3": []}
    balance.spread(held, numbered(9, 23))
    assert [len(each) for each in held.values()] == [6, 6, 6, 6]


def test_connectors_and_tasks_are_handed_out_apart():
    one = work.Work(connectors=("c1", "c2"))
    other = work.Work(tasks=connect_group.tasks("c1", 2))
    found = loads(a=one, b=other)
    found.hand_out(["c3", *connect_group.tasks("c3", 1)])
    assert found.work("b") == work.Work(connectors=("c3",), tasks=connect_group.tasks("c1", 2))
    assert found.work("a") == work.Work(connectors=("c1", "c2"), tasks=connect_group.tasks("c3", 1))


@given(
    st.dictionaries(st.text(max_size=3), st.integers(0, 9), min_size=1, max_size=6),
    st.integers(0, 30),
)
def test_nobody_gets_an_item_who_has_more_than_another(sizes, count):
    held = {member: ["old"] * size for member, size in sizes.items()}
    balance.spread(held, ["new"] * count)
    assert sum(len(each) for each in held.values()) == sum(sizes.values()) + count
    raised = [len(each) for each in held.values() if "new" in each]
    if raised:
        assert max(raised) - min(map(len, held.values())) <= 1


# Taking away


@pytest.mark.parametrize(
    ("sizes", "total", "expected"),
    [
        ([3, 3], 6, [0, 0]),
        ([4, 3], 7, [0, 0]),
        ([8, 0], 8, [4, 0]),
        ([4, 4, 0], 8, [1, 1, 0]),
        ([5, 0, 2], 7, [2, 0, 0]),
        ([2, 2, 3], 7, [0, 0, 0]),
        ([4, 4], 9, [0, 0]),  # one is to come
        ([4, 2, 3], 9, [1, 0, 0]),
        ([3, 3, 3, 0], 9, [0, 1, 1, 0]),  # the first keeps the odd one
        ([0, 0], 5, [0, 0]),
        ([0, 1], 0, [0, 1]),
    ],
)
def test_what_is_above_a_members_part_is_taken_from_its_front(sizes, total, expected):
    held = {f"w{at}": list(range(size)) for at, size in enumerate(sizes)}
    found = balance.surplus(held, total)
    assert [len(found.get(member, ())) for member in held] == expected
    for member, taken in found.items():
        assert list(taken) == held[member][: len(taken)]


def test_nothing_is_taken_while_nothing_runs_or_nothing_is_configured():
    some = work.Work(connectors=("c1", "c2"))
    assert loads(a=work.NO_WORK, b=work.NO_WORK).too_many(some) == {}
    assert loads(a=some, b=work.NO_WORK).too_many(work.NO_WORK) == {}


def test_connectors_and_tasks_are_taken_together():
    everything = work.Work(connectors=("c1", "c2"), tasks=connect_group.tasks("c1", 4))
    found = loads(a=everything, b=work.NO_WORK).too_many(everything)
    assert found == {"a": frozenset({"c1", *connect_group.tasks("c1", 2)})}


# Keeping books


def test_loads_are_added_to_and_taken_from():
    held = work.Work(connectors=("c1",), tasks=connect_group.tasks("c1", 3))
    found = balance.Loads.of({"a": held, "b": work.NO_WORK}, without={"c1"})
    assert list(found.idle) == ["b"]
    assert set(found.members) == {"a", "b"}
    found.remove("a", frozenset(connect_group.tasks("c1", 2)))
    assert found.work("a") == work.Work(tasks=connect_group.tasks("c1", 1, start=2))
    found.add("b", ["c2"])
    assert found.work("b") == work.Work(connectors=("c2",))
    assert list(found.idle) == []
    assert held.connectors == ("c1",), "what came in is left alone"
