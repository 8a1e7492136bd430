"""Converts records between plugins and Kafka with transformations, converters and error handling.

`TransformationChain` and `ErrorOperator` are interfaces. Their implementations in this module do
not transform records, and fail the task on any error. Java:
AbstractWorkerSourceTask.convertTransformedRecord, WorkerSinkTask.convertAndTransformRecord.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from connect_runtime.api import config_def, converter, schema
from connect_runtime.api.converter import Converter, HeaderConverter
from connect_runtime.api.errors import DataError, FatalError
from connect_runtime.api.records import AnyRecord, Header, Headers, SinkRecord, SourceRecord
from connect_runtime.api.schema import SchemaAndValue
from connect_runtime.config.worker_config import WorkerConfig
from connect_runtime.plugins.plugin_aliases import Kind, PluginRegistry
from connect_runtime.worker import plugin_instantiation
from connect_runtime.worker.task_client_interfaces import ConsumerRecord, ProducerRecord, RawHeaders
from connect_runtime.worker.task_metrics import RecordErrorKind, TaskMetrics

_Result = TypeVar("_Result")


class ConversionStage(enum.Enum):
    """Stage of a record conversion in which an error occurred. The enum value is the name of the
    stage in Java."""

    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"


class RecordSkippedError(Exception):
    """Raised by an `ErrorOperator` to skip a record whose error has already been reported."""


class ErrorOperator(Protocol):
    """Runs one step of a record conversion, retries it after errors, and decides whether an error
    skips the record or fails the task."""

    def run_shutdown_step(
        self, stage: ConversionStage, step: Callable[[], _Result], *, record: object
    ) -> _Result:
        """Run one conversion step of `record`.

        Raises `RecordSkippedError` to skip the record, or `ConnectError` to fail the task.
        """


class FailFastOperator:
    """Implements `ErrorOperator` for `errors.tolerance=none` without retries: any error fails the
    task."""

    def __init__(self, metrics: TaskMetrics) -> None:
        self._metrics = metrics

    def run_shutdown_step(
        self, stage: ConversionStage, step: Callable[[], _Result], *, record: object
    ) -> _Result:
        """Run a conversion step as documented in `ErrorOperator.run_conversion_step`. Any error
        fails the task."""
        try:
            return step()
        except Exception as error:
            self._metrics.record_errors(RecordErrorKind.FAILURE, RecordErrorKind.ERROR)
            raise FatalError(
                f"Tolerance exceeded in error handler: {stage.value} failed for "
                f"{_describe_record_position(record)}"
            ) from error


def _describe_record_position(about: object) -> str:
    """Describe a record's topic and offset for error messages, without its content."""
    match about:
        case ConsumerRecord():
            return f"the record of {about.topic_partition} at offset {about.offset}"
        case SourceRecord():
            return f"a record for topic {about.topic}"
        case _:
            return "a record"


class TransformationChain(Protocol):
    """A connector's chain of transformations (`transforms`), in order."""

    def apply(self, record: AnyRecord) -> AnyRecord | None:
        """Return the transformed record; None if a transformation drops it."""

    def close(self) -> None: ...


class NoTransformations:
    """Implements `TransformationChain` for connectors without transformations."""

    def apply(self, record: AnyRecord) -> AnyRecord | None:
        """Return the record as it is."""
        return record

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConverters:
    """The configured key, value and header converters of one task."""

    key: Converter
    value: Converter
    header: HeaderConverter


class RecordConversion:
    """Converts the records of one task, on its thread."""

    def __init__(
        self,
        converters: TaskConverters,
        *,
        operator: ErrorOperator,
        transforms: TransformationChain | None = None,
    ) -> None:
        self._converters = converters
        self._transforms = NoTransformations() if transforms is None else transforms
        self._operator = operator

    def transform_and_serialize_record(self, record: SourceRecord) -> ProducerRecord | None:
        """Transform and serialize a source record. Return None if a transformation drops the record
        or if it is skipped after an error.

        Raises `ConnectError`.
        """
        try:
            changed = self._operator.run_shutdown_step(
                ConversionStage.TRANSFORMATION,
                lambda: self._transforms.apply(record),
                record=record,
            )
            return None if changed is None else self._serialize_record(changed)
        except RecordSkippedError:
            return None

    def deserialize_and_transform_record(self, consumed: ConsumerRecord) -> SinkRecord | None:
        """Deserialize and transform a consumed record. Return None if a transformation drops the
        record or if it is skipped after an error.

        Raises `ConnectError`.
        """
        try:
            record = self._deserialize_record(consumed)
            return self._operator.run_shutdown_step(
                ConversionStage.TRANSFORMATION,
                lambda: self._transforms.apply(record),
                record=consumed,
            )
        except RecordSkippedError:
            return None

    def close(self) -> None:
        """Close all converters and transformations, then raise the first error if closing
        failed."""
        closeables = (
            self._transforms,
            *{id(each): each for each in self._list_converters()}.values(),
        )
        failure: Exception | None = None
        for each in closeables:
            try:
                each.close()
            except Exception as error:  # noqa: BLE001 - raised after the other parts are closed
                failure = failure or error
        if failure is not None:
            raise failure

    def _list_converters(self) -> tuple[Converter | HeaderConverter, ...]:
        return self._converters.key, self._converters.value, self._converters.header

    def _serialize_record(self, record: SourceRecord) -> ProducerRecord:
        """Serialize a record. Headers are serialized last, because key and value converters may add
        headers."""
        key = self._operator.run_shutdown_step(
            ConversionStage.KEY_CONVERTER,
            lambda: _require_bytes_or_none(
                self._converters.key.from_connect_data(
                    record.topic,
                    SchemaAndValue(record.key_schema, record.key),
                    record.headers,
                )
            ),
            record=record,
        )
        value = self._operator.run_shutdown_step(
            ConversionStage.VALUE_CONVERTER,
            lambda: _require_bytes_or_none(
                self._converters.value.from_connect_data(
                    record.topic,
                    SchemaAndValue(record.value_schema, record.value),
                    record.headers,
                )
            ),
            record=record,
        )
        raw = self._operator.run_shutdown_step(
            ConversionStage.HEADER_CONVERTER, lambda: self._serialize_headers(record), record=record
        )
        return ProducerRecord(
            topic=record.topic,
            partition=record.kafka_partition,
            key=key,
            value=value,
            timestamp=record.timestamp,
            headers=raw,
        )

    def _serialize_headers(self, record: SourceRecord) -> RawHeaders:
        convert = self._converters.header.from_connect_header
        return tuple(
            (
                each.key,
                _require_bytes_or_none(
                    convert(record.topic, each.key, SchemaAndValue(each.schema, each.value))
                ),
            )
            for each in record.headers
        )

    def _deserialize_record(self, consumed: ConsumerRecord) -> SinkRecord:
        run, topic = self._operator.run_shutdown_step, consumed.topic
        raw = Headers(
            Header(name, value, schema.OPTIONAL_BYTES_SCHEMA)
            for name, value in consumed.headers or ()
        )
        key = run(
            ConversionStage.KEY_CONVERTER,
            lambda: _require_schema_and_value(
                self._converters.key.to_connect_data(topic, consumed.key, raw)
            ),
            record=consumed,
        )
        value = run(
            ConversionStage.VALUE_CONVERTER,
            lambda: _require_schema_and_value(
                self._converters.value.to_connect_data(topic, consumed.value, raw)
            ),
            record=consumed,
        )
        found = run(
            ConversionStage.HEADER_CONVERTER,
            lambda: self._deserialize_headers(consumed),
            record=consumed,
        )
        return SinkRecord(
            topic=topic,
            kafka_partition=consumed.partition,
            kafka_offset=consumed.offset,
            key_schema=key.schema,
            key=key.value,
            value_schema=value.schema,
            value=value.value,
            timestamp=consumed.timestamp,
            timestamp_type=consumed.timestamp_type,
            headers=found,
        )

    def _deserialize_headers(self, consumed: ConsumerRecord) -> Headers:
        found = Headers()
        if consumed.headers is None:
            raise DataError("a header name is not UTF-8")
        for name, payload in consumed.headers:
            data = _require_schema_and_value(
                self._converters.header.to_connect_header(consumed.topic, name, payload)
            )
            found.append(Header(name, data.value, data.schema))
        return found


def _require_bytes_or_none(given: object) -> bytes | None:
    if given is None or isinstance(given, bytes):
        return given
    raise DataError(f"a converter must return bytes or None, not {type(given).__name__}")


def _require_schema_and_value(given: object) -> SchemaAndValue:
    if isinstance(given, SchemaAndValue):
        return given
    raise DataError(f"a converter must return a SchemaAndValue, not {type(given).__name__}")


def load_converters(
    config: Mapping[str, str | None],
    *,
    worker: WorkerConfig,
    installed: PluginRegistry,
    default: str | None = None,
) -> TaskConverters:
    """Create a task's key, value and header converters.

    The connector's configuration has precedence, then the connector's default converter (`default`,
    for keys and values only), then the worker's converter. Only the worker's converter is
    configured with the worker's settings; the others are configured with the connector's settings,
    such as `key.converter.schemas.enable`. Raises `ConnectError`, and any exception that a
    converter's `configure` raises.
    """

    def create_converter(part: str, of_worker: str, kind: Kind) -> Any:
        own = config.get(f"{part}.converter")
        if own is None and kind is Kind.CONVERTER:
            own = default
        settings = config_def.with_prefix(config, f"{part}.converter.")
        if own is None:
            settings = worker.get_properties_with_prefix(f"{part}.converter.")
        name = of_worker if own is None else own
        found = installed.find_plugin_class(name, kind)()
        plugin_instantiation.check_plugin_version(found, name, settings.get("plugin.version"))
        if kind is Kind.CONVERTER:
            found.configure(settings, is_key=part == "key")
        else:
            found.configure({converter.TYPE_CONFIG: "header", **settings})
        return found

    return TaskConverters(
        key=create_converter("key", worker.key_converter, Kind.CONVERTER),
        value=create_converter("value", worker.value_converter, Kind.CONVERTER),
        header=create_converter("header", worker.header_converter, Kind.HEADER_CONVERTER),
    )
