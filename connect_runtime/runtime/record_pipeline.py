"""A record's way between a plugin and Kafka: transforms, converters, and who decides on errors.

`Transforms` and `Operator` are seams: here records stay as they are, and any error is the task's.
Java: AbstractWorkerSourceTask.convertTransformedRecord, WorkerSinkTask.convertAndTransformRecord.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from connect_runtime.api import config_def, converter, errors, headers, records, schema
from connect_runtime.core.task import worker_config
from connect_runtime.ports import clients, plugins
from connect_runtime.runtime import plugin_answers, task_metrics

_Result = TypeVar("_Result")


class Stage(enum.Enum):
    """Where an error happened; the value is Java's name."""

    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"


class Skipped(Exception):
    """An `Operator` raises it for a record that is to be left out, and has been told of."""


class Operator(Protocol):
    """Makes one step of one record, again if need be, and decides what follows from an error."""

    def run(self, stage: Stage, step: Callable[[], _Result], *, about: object) -> _Result:
        """Raises `Skipped`, or `ConnectError` where the task is to fail. `about`: the record."""


class Intolerant:
    """Implements `Operator` for `errors.tolerance=none` without retries."""

    def __init__(self, metrics: task_metrics.TaskMetrics) -> None:
        self._metrics = metrics

    def run(self, stage: Stage, step: Callable[[], _Result], *, about: object) -> _Result:
        """See `Operator`."""
        try:
            return step()
        except Exception as error:
            self._metrics.happened(task_metrics.Trouble.FAILURE, task_metrics.Trouble.ERROR)
            raise errors.FatalError(
                f"Tolerance exceeded in error handler: {stage.value} failed for {_place(about)}"
            ) from error


def _place(about: object) -> str:
    """Of a record, where somebody finds it; never what is in it."""
    match about:
        case clients.ConsumedRecord():
            return f"the record of {about.place} at offset {about.offset}"
        case records.SourceRecord():
            return f"a record for topic {about.topic}"
        case _:
            return "a record"


class Transforms(Protocol):
    """The chain of `transforms`."""

    def apply(self, record: records.AnyRecord) -> records.AnyRecord | None:
        """None drops the record."""

    def close(self) -> None: ...


class NoTransforms:
    """Implements `Transforms`."""

    def apply(self, record: records.AnyRecord) -> records.AnyRecord | None:
        """See `Transforms`; so for all below."""
        return record

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Converters:
    """Of one task, configured."""

    key: converter.Converter
    value: converter.Converter
    header: converter.HeaderConverter


class RecordPipeline:
    """Of one task, for its thread."""

    def __init__(
        self,
        converters: Converters,
        *,
        operator: Operator,
        transforms: Transforms | None = None,
    ) -> None:
        self._converters = converters
        self._transforms = NoTransforms() if transforms is None else transforms
        self._operator = operator

    def to_kafka(self, record: records.SourceRecord) -> clients.KafkaRecord | None:
        """None: it is left out. Raises `ConnectError`."""
        try:
            changed = self._operator.run(
                Stage.TRANSFORMATION, lambda: self._transforms.apply(record), about=record
            )
            return None if changed is None else self._to_bytes(changed)
        except Skipped:
            return None

    def from_kafka(self, consumed: clients.ConsumedRecord) -> records.SinkRecord | None:
        """None: it is left out. Raises `ConnectError`."""
        try:
            record = self._to_data(consumed)
            return self._operator.run(
                Stage.TRANSFORMATION, lambda: self._transforms.apply(record), about=consumed
            )
        except Skipped:
            return None

    def close(self) -> None:
        """Every plugin is closed, whatever another raises; the first error is."""
        held = (self._transforms, *{id(each): each for each in self._all()}.values())
        failure: Exception | None = None
        for each in held:
            try:
                each.close()
            except Exception as error:  # noqa: BLE001 - raised when all are closed
                failure = failure or error
        if failure is not None:
            raise failure

    def _all(self) -> tuple[converter.Converter | converter.HeaderConverter, ...]:
        return self._converters.key, self._converters.value, self._converters.header

    def _to_bytes(self, record: records.SourceRecord) -> clients.KafkaRecord:
        """Headers last: converters may add some."""
        key = self._operator.run(
            Stage.KEY_CONVERTER,
            lambda: _bytes(
                self._converters.key.from_connect_data(
                    record.topic,
                    schema.SchemaAndValue(record.key_schema, record.key),
                    record.headers,
                )
            ),
            about=record,
        )
        value = self._operator.run(
            Stage.VALUE_CONVERTER,
            lambda: _bytes(
                self._converters.value.from_connect_data(
                    record.topic,
                    schema.SchemaAndValue(record.value_schema, record.value),
                    record.headers,
                )
            ),
            about=record,
        )
        raw = self._operator.run(
            Stage.HEADER_CONVERTER, lambda: self._raw_headers(record), about=record
        )
        return clients.KafkaRecord(
            topic=record.topic,
            partition=record.kafka_partition,
            key=key,
            value=value,
            timestamp=record.timestamp,
            headers=raw,
        )

    def _raw_headers(self, record: records.SourceRecord) -> clients.RawHeaders:
        convert = self._converters.header.from_connect_header
        return tuple(
            (
                each.key,
                _bytes(
                    convert(record.topic, each.key, schema.SchemaAndValue(each.schema, each.value))
                ),
            )
            for each in record.headers
        )

    def _to_data(self, consumed: clients.ConsumedRecord) -> records.SinkRecord:
        run, topic = self._operator.run, consumed.topic
        raw = headers.Headers(
            headers.Header(name, value, schema.OPTIONAL_BYTES_SCHEMA)
            for name, value in consumed.headers
        )
        key = run(
            Stage.KEY_CONVERTER,
            lambda: _data(self._converters.key.to_connect_data(topic, consumed.key, raw)),
            about=consumed,
        )
        value = run(
            Stage.VALUE_CONVERTER,
            lambda: _data(self._converters.value.to_connect_data(topic, consumed.value, raw)),
            about=consumed,
        )
        found = run(Stage.HEADER_CONVERTER, lambda: self._header_values(consumed), about=consumed)
        return records.SinkRecord(
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

    def _header_values(self, consumed: clients.ConsumedRecord) -> headers.Headers:
        found = headers.Headers()
        for name, payload in consumed.headers:
            data = _data(self._converters.header.to_connect_header(consumed.topic, name, payload))
            found.append(headers.Header(name, data.value, data.schema))
        return found


def _bytes(given: object) -> bytes | None:
    if given is None or isinstance(given, bytes):
        return given
    raise errors.DataError(f"a converter must return bytes or None, not {type(given).__name__}")


def _data(given: object) -> schema.SchemaAndValue:
    if isinstance(given, schema.SchemaAndValue):
        return given
    raise errors.DataError(f"a converter must return a SchemaAndValue, not {type(given).__name__}")


def converters(
    config: Mapping[str, str | None],
    *,
    worker: worker_config.WorkerConfig,
    installed: plugins.Plugins,
    default: str | None = None,
) -> Converters:
    """The connector's own where it names them, with its sub-keys alone; else the worker's.

    `default` is a class that goes before the worker's for keys and values. Raises `ConnectError`,
    and whatever a converter does when it is configured.
    """

    def made(part: str, of_worker: str, kind: plugins.Kind) -> Any:
        own = config.get(f"{part}.converter")
        if own is None and kind is plugins.Kind.CONVERTER:
            own = default
        settings = config_def.with_prefix(config, f"{part}.converter.")
        if own is None:
            settings = worker.under(f"{part}.converter.")
        name = of_worker if own is None else own
        found = installed.find(name, kind)()
        plugin_answers.check_version(found, name, settings.get("plugin.version"))
        if kind is plugins.Kind.CONVERTER:
            found.configure(settings, is_key=part == "key")
        else:
            found.configure({converter.TYPE_CONFIG: "header", **settings})
        return found

    return Converters(
        key=made("key", worker.key_converter, plugins.Kind.CONVERTER),
        value=made("value", worker.value_converter, plugins.Kind.CONVERTER),
        header=made("header", worker.header_converter, plugins.Kind.HEADER_CONVERTER),
    )
