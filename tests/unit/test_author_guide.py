"""The connectors of the author's guide do what it says, and stay short."""

from __future__ import annotations

import json
import pathlib
import re
import sqlite3
from typing import Any

import pytest

from connect_runtime.api import ConfigError, DataError, SinkRecord
from tests.fakes import plugin_contexts
from tests.fakes.plugin_contexts import Context

GUIDE = pathlib.Path(__file__).parents[2] / "connect_runtime" / "README.md"
SOURCE, SINK = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


def loaded(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(code, str(GUIDE), "exec"), names)
    return names


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "data.db"
    connection = sqlite3.connect(path)
    for table in ("users", "orders", "items"):
        connection.execute(f"CREATE TABLE {table} (name TEXT, age INTEGER)")
        connection.execute(f"INSERT INTO {table} VALUES ('{table}-1', 5), ('{table}-2', NULL)")
    connection.commit()
    yield connection
    connection.close()


@pytest.fixture
def props(tmp_path, database) -> dict[str, str]:
    return {
        "database": str(tmp_path / "data.db"),
        "tables": "users, orders,items",
        "topic.prefix": "db-",
    }


def started(task: Any, props: Any, **context: Any) -> Any:
    task.initialize(Context(**context))
    task.start(props)
    return task


def test_the_source_shares_its_tables_out(props):
    connector = loaded(SOURCE)["TableSource"]()
    assert not any(value.error_messages for value in connector.validate(props))
    assert any(value.error_messages for value in connector.validate({"database": ""}))
    connector.start(props)
    assert [each["tables"] for each in connector.task_configs(2)] == ["users,orders", "items"]
    assert len(connector.task_configs(9)) == 3


def test_the_source_reads_each_row_once_across_restarts(props, database):
    names = loaded(SOURCE)
    task = started(names["TableSourceTask"](), props)
    first = task.poll()
    assert [(each.topic, each.value) for each in first][:2] == [
        ("db-users", {"name": "users-1", "age": 5}),
        ("db-users", {"name": "users-2", "age": None}),
    ]
    assert len(first) == 6
    assert task.poll() == []
    assert task.context.waited_s == 1.0
    task.stop()
    database.execute("INSERT INTO items VALUES ('late', 1)")
    database.commit()
    committed = plugin_contexts.stored_by(first)
    again = started(names["TableSourceTask"](), props, offset_reader=committed)
    assert [each.value["name"] for each in again.poll()] == ["late"]
    again.stop()


def test_a_source_task_that_could_not_start_can_be_stopped(props):
    task = loaded(SOURCE)["TableSourceTask"]()
    with pytest.raises(ConfigError):
        started(task, {})
    task.stop()


def record(key: Any, value: Any) -> SinkRecord:
    return SinkRecord(topic="t", kafka_partition=0, kafka_offset=0, key=key, value=value)


class Reporter:
    def __init__(self) -> None:
        self.reported: list[object] = []

    def report(self, refused, error):
        self.reported.append((refused.value, str(error)))


def test_the_sink_keeps_the_newest_value_and_is_durable_after_flush(props, database):
    names = loaded(SINK)
    connector = names["TableSink"]()
    connector.start(props)
    assert len(connector.task_configs(2)) == 2
    task = started(connector.task_class()(), props)
    task.put([record("a", {"n": 1}), record("b", 2), record("a", {"n": 3}), record("b", None)])
    assert database.execute("SELECT * FROM newest").fetchall() == []
    task.pre_commit({})
    rows = database.execute("SELECT * FROM newest").fetchall()
    assert [(key, json.loads(value)) for key, value in rows] == [("a", {"n": 3})]
    task.stop()


def test_the_sink_reports_what_it_cannot_use(props, database):
    reporter = Reporter()
    task = loaded(SINK)["TableSinkTask"]()
    started(task, props, errant_record_reporter=reporter)
    task.put([record(None, "x")])
    assert reporter.reported == [("x", "a record needs a key")]
    task.context.errant_record_reporter = None
    with pytest.raises(DataError):
        task.put([record(None, "x")])
    task.stop()


def test_the_sink_keeps_what_the_source_reads(props, database):
    read = started(loaded(SOURCE)["TableSourceTask"](), {**props, "tables": "users"}).poll()
    sink = started(loaded(SINK)["TableSinkTask"](), props)
    sink.put([record(each.key, each.value) for each in read])
    sink.flush({})
    assert database.execute("SELECT key FROM newest").fetchall() == [("1",), ("2",)]
    sink.stop()


@pytest.mark.parametrize("code", [SOURCE, SINK])
def test_each_is_short_enough_to_read(code):
    statements = [line for line in code.splitlines() if line.strip()]
    assert len(statements) <= 45
    assert max(map(len, statements)) <= 100
