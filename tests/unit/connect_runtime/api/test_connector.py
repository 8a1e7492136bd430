from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api import connector
from connect_runtime.api.config_def import ConfigDef, Type
from connect_runtime.api.connector import SinkConnector, SourceConnector, TransactionBoundaries
from connect_runtime.api.errors import ConnectError


@pytest.mark.parametrize(
    ("items", "groups", "expected"),
    [
        ([1, 2, 3, 4, 5], 1, [[1, 2, 3, 4, 5]]),
        ([1, 2, 3, 4, 5], 2, [[1, 2, 3], [4, 5]]),
        ([1, 2, 3, 4, 5], 3, [[1, 2], [3, 4], [5]]),
        ([1, 2, 3, 4, 5], 5, [[1], [2], [3], [4], [5]]),
        ([1, 2, 3, 4, 5], 7, [[1], [2], [3], [4], [5], [], []]),
        ([], 2, [[], []]),
    ],
)
def test_neighbours_stay_together(items, groups, expected):
    assert connector.group_partitions(items, groups) == expected


@pytest.mark.parametrize("groups", [0, -1])
def test_there_is_at_least_one_group(groups):
    with pytest.raises(ValueError, match="at least 1 is required"):
        connector.group_partitions([1], groups)


@given(items=st.lists(st.integers()), groups=st.integers(1, 50))
def test_nothing_is_lost_and_sizes_differ_by_one_at_most(items, groups):
    shared = connector.group_partitions(items, groups)
    assert [each for group in shared for each in group] == items
    sizes = [len(group) for group in shared]
    assert len(sizes) == groups
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


class Source(SourceConnector):
    def __init__(self) -> None:
        self.calls: list[object] = []
        self.definition = ConfigDef().define("topic", Type.STRING, "Where")

    def start(self, props):
        self.calls.append(props)

    def stop(self):
        self.calls.append("stop")

    def task_class(self):
        raise NotImplementedError

    def task_configs(self, max_tasks):
        return [{}] * max_tasks

    def config(self):
        return self.definition


def test_a_connector_is_validated_by_its_definition():
    (found,) = Source().validate({})
    assert found.error_messages == [
        'Missing required configuration "topic" which has no default value.'
    ]
    lacking: Any = Source()
    lacking.definition = None
    with pytest.raises(ConnectError, match="must return a ConfigDef that is not null"):
        lacking.validate({})


def test_it_is_reconfigured_by_stop_and_start():
    source = Source()
    source.reconfigure({"topic": "t"})
    assert source.calls == ["stop", {"topic": "t"}]


def test_what_it_does_not_say_it_does_not_support():
    source = Source()
    assert source.exactly_once_support({}) is None
    unsupported = TransactionBoundaries.UNSUPPORTED
    assert source.can_define_transaction_boundaries({}) is unsupported
    assert source.alter_offsets({}, []) is False
    assert source.version() == "undefined"
    kind: Any = SinkConnector
    with pytest.raises(TypeError, match="task_configs"):
        kind()
