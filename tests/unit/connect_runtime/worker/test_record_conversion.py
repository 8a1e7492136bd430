"""Between Connect's data and bytes: what converts, what is refused, where the seams are."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import pytest

from connect_runtime.api import schema
from connect_runtime.api.converter import Converter
from connect_runtime.api.errors import ConnectError
from connect_runtime.api.records import Header, Headers, SourceRecord
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.base.windowed_stats import SampleWindows
from connect_runtime.config import worker_config
from connect_runtime.worker import record_conversion
from connect_runtime.worker.record_conversion import (
    FailFastOperator,
    RecordConversion,
    RecordSkippedError,
)
from connect_runtime.worker.task_metrics import TaskMetrics, TaskMetricsInfo
from tests.fakes import task_clients
from tests.fakes.plugin_contexts import Clock
from tests.fakes.task_clients import Plugins


class Rubbish(Converter):
    def from_connect_data(self, topic, data, record_headers):
        return "text"

    def to_connect_data(self, topic, payload, record_headers):
        return 7


class Configured(Rubbish):
    given: ClassVar[list] = []

    def configure(self, configs, *, is_key=False):
        self.given.append((dict(configs), is_key))


class Skips:
    """An operator that leaves out whatever fails."""

    def run_shutdown_step(self, stage, step, *, record):
        try:
            return step()
        except Exception:  # noqa: BLE001 - of a test
            raise RecordSkippedError from None


WORKER = worker_config.parse_standalone_config(
    {
        "bootstrap.servers": "a:1",
        "key.converter": "String",
        "value.converter": "Mine",
        "value.converter.x": "worker's",
        "header.converter": "Simple",
        "offset.storage.file.filename": "f",
    }
)


def measured():
    return TaskMetrics(
        TaskMetricsInfo(
            task=ConnectorTaskId("c", 0),
            clock=Clock(),
            sampling=SampleWindows(),
        )
    )


def pipeline(value="String", **options):
    installed = Plugins({"Rubbish": Rubbish})
    config = {"key.converter": "String", "value.converter": value}
    made = record_conversion.load_converters(config, worker=WORKER, installed=installed)
    options.setdefault("operator", FailFastOperator(measured()))
    return RecordConversion(made, **options)


def source_record(value="v"):
    return SourceRecord(
        topic="t",
        kafka_partition=3,
        key="k",
        value_schema=schema.STRING_SCHEMA,
        value=value,
        timestamp=9,
        headers=Headers([Header("h", 7)]),
    )


def test_a_record_becomes_bytes_and_back():
    written = pipeline().transform_and_serialize_record(source_record())
    assert written is not None
    assert (written.topic, written.partition, written.timestamp) == ("t", 3, 9)
    assert (written.key, written.value, written.headers) == (b"k", b"v", (("h", b"7"),))
    read = pipeline().deserialize_and_transform_record(task_clients.consumed(4, b"v"))
    assert read is not None
    assert (read.value, read.kafka_offset, read.original_topic) == ("v", 4, "t")


def test_what_a_converter_returns_amiss_fails_the_task():
    written = "VALUE_CONVERTER failed for a record for topic t$"
    with pytest.raises(ConnectError, match=written) as told:
        pipeline("Rubbish").transform_and_serialize_record(source_record())
    assert "must return bytes" in str(told.value.__cause__)
    read = "VALUE_CONVERTER failed for the record of t-0 at offset 5$"
    with pytest.raises(ConnectError, match=read):
        pipeline("Rubbish").deserialize_and_transform_record(task_clients.consumed(5))


def test_a_malformed_header_name_is_an_error_of_one_record():
    record = dataclasses.replace(task_clients.consumed(6), headers=None)
    with pytest.raises(ConnectError) as raised:
        pipeline().deserialize_and_transform_record(record)
    assert "a header name is not UTF-8" in f"{raised.value} {raised.value.__cause__}"
    assert pipeline("Rubbish", operator=Skips()).deserialize_and_transform_record(record) is None


def test_an_operator_may_leave_records_out():
    assert (
        pipeline("Rubbish", operator=Skips()).transform_and_serialize_record(source_record())
        is None
    )
    assert (
        pipeline("Rubbish", operator=Skips()).deserialize_and_transform_record(
            task_clients.consumed(0)
        )
        is None
    )


def test_transforms_come_before_converters_and_may_drop():
    class Drops:
        closed = False

        def apply(self, record):
            return None if record.value == "drop" else record.new_record(topic="u")

        def close(self):
            self.closed = True

    transforms = Drops()
    made = pipeline(transforms=transforms)
    assert made.transform_and_serialize_record(source_record("drop")) is None
    written = made.transform_and_serialize_record(source_record())
    assert written is not None
    assert written.topic == "u"
    made.close()
    assert transforms.closed


def test_a_connectors_converter_knows_its_own_settings_alone():
    installed = Plugins({"Mine": Configured})
    Configured.given.clear()
    record_conversion.load_converters(
        {"value.converter.x": "no"}, worker=WORKER, installed=installed
    )
    own = {"value.converter": "Mine", "value.converter.y": "own", "key.converter": "Mine"}
    record_conversion.load_converters(own, worker=WORKER, installed=installed)
    assert Configured.given == [({"x": "worker's"}, False), ({}, True), ({"y": "own"}, False)]


def test_a_connectors_default_goes_before_the_workers_and_behind_what_is_configured():
    installed = Plugins({"Mine": Configured, "Rubbish": Rubbish})
    Configured.given.clear()
    found = record_conversion.load_converters(
        {"key.converter": "String"}, worker=WORKER, installed=installed, default="Rubbish"
    )
    names = [type(each).__name__ for each in (found.key, found.value, found.header)]
    assert names == ["StringConverter", "Rubbish", "SimpleHeaderConverter"]
    record_conversion.load_converters({}, worker=WORKER, installed=installed, default="Mine")
    assert Configured.given == [({}, True), ({}, False)], "no setting of the worker's reaches it"
