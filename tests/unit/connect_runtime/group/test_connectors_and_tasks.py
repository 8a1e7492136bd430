from __future__ import annotations

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, ConnectorsAndTasks, WorkItem


def tasks(*printed: str) -> tuple[ConnectorTaskId, ...]:
    parts = [each.rsplit("-", 1) for each in printed]
    return tuple(ConnectorTaskId(name, int(number)) for name, number in parts)


def test_items_are_told_apart_in_their_order():
    mixed: list[WorkItem] = ["b", *tasks("b-1"), "a", *tasks("b-0")]
    found = ConnectorsAndTasks.from_items(mixed)
    assert found == ConnectorsAndTasks(connectors=("b", "a"), tasks=tasks("b-1", "b-0"))
    assert found.items == ("b", "a", *tasks("b-1", "b-0"))


def test_a_connector_is_not_its_task():
    found = ConnectorsAndTasks(connectors=("a-0",), tasks=tasks("a-0"))
    assert found.difference({"a-0"}) == ConnectorsAndTasks(tasks=tasks("a-0"))


def test_work_is_added_behind_and_never_twice():
    one = ConnectorsAndTasks(connectors=("c",), tasks=tasks("c-1"))
    more = ConnectorsAndTasks(connectors=("a", "c"), tasks=tasks("a-0", "c-1"))
    assert one.union(more) == ConnectorsAndTasks(connectors=("c", "a"), tasks=tasks("c-1", "a-0"))


def test_only_nothing_is_false():
    assert not connectors_and_tasks.NO_WORK
    assert ConnectorsAndTasks(connectors=("c",))
    assert ConnectorsAndTasks(tasks=tasks("c-0"))


def test_what_is_configured_is_listed_in_order_and_an_incomplete_connector_without_tasks():
    configured = ConfiguredWork(offset=7, task_counts={"b": 2, "a": 0, "B": 1})
    expected = ConnectorsAndTasks(connectors=("B", "a", "b"), tasks=tasks("B-0", "b-0", "b-1"))
    assert configured.list_work() == expected


def test_names_are_ordered_as_java_orders_them():
    """U+1F600 is written with surrogates, which come before U+FF5E."""
    assert sorted(["\uff5e", "\U0001f600"], key=connectors_and_tasks.build_utf16_sort_key) == [
        "\U0001f600",
        "\uff5e",
    ]
    assert sorted(["\uff5e", "\U0001f600"]) != ["\U0001f600", "\uff5e"]
    numbered = tasks("c-10", "c-9")
    assert connectors_and_tasks.sort_connectors_and_tasks([*numbered, "\uff5e", "\U0001f600"]) == [
        "\U0001f600",
        "\uff5e",
        *reversed(numbered),
    ]


def test_it_prints_what_a_log_needs():
    assert str(ConnectorsAndTasks(connectors=("c",), tasks=tasks("c-0"))) == (
        "connectors ['c'], tasks ['c-0']"
    )
