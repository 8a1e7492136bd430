from __future__ import annotations

from connect_runtime.base import ids
from connect_runtime.core.assignment import work


def tasks(*printed: str) -> tuple[ids.ConnectorTaskId, ...]:
    parts = [each.rsplit("-", 1) for each in printed]
    return tuple(ids.ConnectorTaskId(name, int(number)) for name, number in parts)


def test_items_are_told_apart_in_their_order():
    mixed: list[work.Item] = ["b", *tasks("b-1"), "a", *tasks("b-0")]
    found = work.Work.of(mixed)
    assert found == work.Work(connectors=("b", "a"), tasks=tasks("b-1", "b-0"))
    assert found.items == ("b", "a", *tasks("b-1", "b-0"))


def test_a_connector_is_not_its_task():
    found = work.Work(connectors=("a-0",), tasks=tasks("a-0"))
    assert found.without({"a-0"}) == work.Work(tasks=tasks("a-0"))


def test_work_is_added_behind_and_never_twice():
    one = work.Work(connectors=("c",), tasks=tasks("c-1"))
    more = work.Work(connectors=("a", "c"), tasks=tasks("a-0", "c-1"))
    assert one.then(more) == work.Work(connectors=("c", "a"), tasks=tasks("c-1", "a-0"))


def test_only_nothing_is_false():
    assert not work.NO_WORK
    assert work.Work(connectors=("c",))
    assert work.Work(tasks=tasks("c-0"))


def test_what_is_configured_is_listed_in_order_and_an_incomplete_connector_without_tasks():
    configured = work.Configured(offset=7, task_counts={"b": 2, "a": 0, "B": 1})
    expected = work.Work(connectors=("B", "a", "b"), tasks=tasks("B-0", "b-0", "b-1"))
    assert configured.work() == expected


def test_names_are_ordered_as_java_orders_them():
    """U+1F600 is written with surrogates, which come before U+FF5E."""
    assert sorted(["\uff5e", "\U0001f600"], key=work.java_order) == ["\U0001f600", "\uff5e"]
    assert sorted(["\uff5e", "\U0001f600"]) != ["\U0001f600", "\uff5e"]
    numbered = tasks("c-10", "c-9")
    assert work.in_order([*numbered, "\uff5e", "\U0001f600"]) == [
        "\U0001f600",
        "\uff5e",
        *reversed(numbered),
    ]


def test_it_prints_what_a_log_needs():
    assert str(work.Work(connectors=("c",), tasks=tasks("c-0"))) == (
        "connectors ['c'], tasks ['c-0']"
    )
