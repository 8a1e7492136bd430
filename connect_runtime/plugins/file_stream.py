"""Implements FileStreamSource and FileStreamSink: converts lines of a file to records, and records
to lines of a file.

Configuration keys, offset keys, validation and lines are the same as in Apache Kafka's demo
connectors. The values of source offsets differ for non-ASCII text (see `FileStreamSourceTask`). The
source reads a growing file or standard input. It does not detect that a file was truncated or
replaced, so it is not suitable for log shipping. The sink appends to a file or writes to standard
output. Only files under the worker's `file.stream.allowed.paths` are used.
"""

from __future__ import annotations

import logging
import os
import re
import select
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, ClassVar, TextIO

from connect_runtime.api import schema
from connect_runtime.api.config_def import ConfigDef, ConfigValue, Importance, Type
from connect_runtime.api.config_validators import NonEmptyString
from connect_runtime.api.connector import ExactlyOnceSupport, SinkConnector, SourceConnector
from connect_runtime.api.errors import ConnectError
from connect_runtime.api.records import SinkRecord, SourceOffset, SourceRecord
from connect_runtime.api.task import ConsumedOffsets, SinkTask, SourceTask, Task
from connect_runtime.base.ids import TopicPartition
from connect_runtime.plugins import allowed_paths, compatible_kafka_version, java_value_formatting
from connect_runtime.plugins.allowed_paths import AllowedPaths

_LINE_END = re.compile(rb"\r\n|\n|\r")
LINE_BYTES_MAX = 16 * 1024 * 1024
"""Maximum length of a line. A line is kept in memory until its end is read. The limit is far above
the record size that brokers accept by default (1 MiB)."""


@dataclass(slots=True)
class LineSplitter:
    """Splits a stream of bytes into lines. An incomplete line is buffered until its terminator has
    been added."""

    _waiting: bytearray = field(default_factory=bytearray)
    _seen: int = 0

    def add_bytes(self, chunk: bytes) -> None:
        self._waiting += chunk

    def pop_line(self) -> tuple[bytes, int] | None:
        """Return the next line without its terminator, and its number of bytes with the terminator;
        None if no line is complete.

        A \\r at the end of the buffer may be the first half of a \\r\\n, so it is not returned yet.
        """
        found = _LINE_END.search(self._waiting, self._seen)
        if found is None or (found.group() == b"\r" and found.end() == len(self._waiting)):
            self._seen = len(self._waiting) if found is None else found.start()
            return None
        line = bytes(self._waiting[: found.start()])
        del self._waiting[: found.end()]
        self._seen = 0
        return line, found.end()

    @property
    def is_too_long(self) -> bool:
        """True if the incomplete line in the buffer is longer than `LINE_BYTES_MAX`."""
        return self._seen > LINE_BYTES_MAX


FILE_CONFIG = "file"
TOPIC_CONFIG = "topic"
BATCH_SIZE_CONFIG = "batch.size"
FILENAME_FIELD = "filename"
POSITION_FIELD = "position"

READ_CHUNK_BYTES = 64 * 1024
IDLE_POLL_INTERVAL_S = 1.0

SOURCE_CONFIG = (
    ConfigDef()
    .define(
        FILE_CONFIG,
        Type.STRING,
        "The file to read; standard input if not set.",
        default=None,
    )
    .define(
        TOPIC_CONFIG,
        Type.STRING,
        "The topic to write the lines to.",
        validator=NonEmptyString(),
    )
    .define(
        BATCH_SIZE_CONFIG,
        Type.INT,
        "The maximum number of lines that the task returns at once.",
        default=2000,
        importance=Importance.LOW,
    )
)

_log = logging.getLogger(__name__)


class FileStreamSourceConnector(SourceConnector):
    """Source connector that reads lines from a file.

    It always runs one task, regardless of `tasks.max`, because a file can have only one reader.
    """

    allowed: ClassVar[AllowedPaths] = AllowedPaths()

    def version(self) -> str:
        return compatible_kafka_version.KAFKA_VERSION

    def config(self) -> ConfigDef:
        return SOURCE_CONFIG

    def validate(self, props: Mapping[str, str]) -> list[ConfigValue]:
        return allowed_paths.add_path_errors(super().validate(props), self.allowed)

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        _log.info(
            "Starting file source connector reading from %s",
            _describe_configured_file(SOURCE_CONFIG.parse(props)),
        )

    def task_class(self) -> type[Task]:
        return allowed_paths.restrict_plugin_to_paths(FileStreamSourceTask, self.allowed)

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [self.props]

    def exactly_once_support(self, props: Mapping[str, str]) -> ExactlyOnceSupport:
        """Return SUPPORTED for files, because their offsets are tracked, and UNSUPPORTED for
        standard input."""
        if SOURCE_CONFIG.parse(props)[FILE_CONFIG]:
            return ExactlyOnceSupport.SUPPORTED
        return ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(self, props: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        if not SOURCE_CONFIG.parse(props)[FILE_CONFIG]:
            raise ConnectError(
                f"Offsets cannot be modified if the '{FILE_CONFIG}' configuration is "
                "unspecified. This is "
                "because stdin is used for input and offsets are not tracked."
            )
        for each in offsets:
            # Deleting an offset needs no check.
            if each.offset is not None:
                _check_offset(each.partition, each.offset)
        return True


def _check_offset(partition: Mapping[str, Any] | None, offset: Mapping[str, Any]) -> None:
    if POSITION_FIELD not in offset:
        raise ConnectError(
            f"Offset objects should either be null or contain the key '{POSITION_FIELD}'"
        )
    position = offset[POSITION_FIELD]
    if not isinstance(position, int) or isinstance(position, bool):
        raise ConnectError(
            f"The value for the '{POSITION_FIELD}' key in the offset is expected to be a Long value"
        )
    if position < 0:
        raise ConnectError(
            f"The value for the '{POSITION_FIELD}' key in the offset should be a non-negative value"
        )
    if partition is None:
        raise ConnectError("Partition objects cannot be null")
    if FILENAME_FIELD not in partition:
        raise ConnectError(f"Partition objects should contain the key '{FILENAME_FIELD}'")


def _describe_configured_file(config: Mapping[str, Any]) -> str:
    return config[FILE_CONFIG] or "standard input"


class FileStreamSourceTask(SourceTask):
    """Reads lines from a file. A record's offset is the byte position after its line.

    Java's task counts characters instead of bytes, but skips the same number of bytes after a
    restart. In a file with non-ASCII characters, Java's task therefore resumes at a wrong position.
    """

    allowed: ClassVar[AllowedPaths] = AllowedPaths()

    def __init__(self) -> None:
        self._config: Mapping[str, Any] = {}
        self._stream: BinaryIO | None = None
        self._position: int | None = None
        self._lines = LineSplitter()

    def version(self) -> str:
        return compatible_kafka_version.KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        self._config = SOURCE_CONFIG.parse(props)
        if not self._config[FILE_CONFIG]:
            self._stream = sys.stdin.buffer

    def poll(self) -> Sequence[SourceRecord] | None:
        if self._stream is None:
            self._stream = self._open_source_file()
        if self._stream is None:
            self.context.wait(IDLE_POLL_INTERVAL_S)
            return None
        found = self._convert_lines()
        while len(found) < self._config[BATCH_SIZE_CONFIG] and not self._lines.is_too_long:
            chunk = self._read_available_bytes(self._stream)
            if not chunk:
                break
            self._lines.add_bytes(chunk)
            found += self._convert_lines(self._config[BATCH_SIZE_CONFIG] - len(found))
        if not found:
            self._check_line_length()
            self.context.wait(IDLE_POLL_INTERVAL_S)
        return found or None

    def _open_source_file(self) -> BinaryIO | None:
        """Open the source file; return None as long as the file does not exist."""
        name = self._config[FILE_CONFIG]
        position = self._read_stored_position(name)
        try:
            stream = open(self.allowed.open_allowed_file(name, os.O_RDONLY), "rb", buffering=0)  # noqa: SIM115  # closed by `stop`
        except FileNotFoundError:
            _log.warning("Couldn't find file %s, waiting for it to be created", name)
            return None
        except OSError as error:
            raise ConnectError(f"opening {name}: {error.strerror}") from error
        stream.seek(position)
        self._position = position
        return stream

    def _read_stored_position(self, name: str) -> int:
        stored = self.context.offset_reader.offset({FILENAME_FIELD: name}) or {}
        position = stored.get(POSITION_FIELD)
        if position is None:
            return 0
        if not isinstance(position, int) or isinstance(position, bool):
            raise ConnectError(
                f"The stored position in {name} is not an integer: alter or reset the "
                "connector's offsets."
            )
        return position

    def _read_available_bytes(self, stream: BinaryIO) -> bytes:
        """Read up to `READ_CHUNK_BYTES` that are currently available, without blocking."""
        try:
            if self._config[FILE_CONFIG]:
                return stream.read(READ_CHUNK_BYTES)
            ready, _, _ = select.select([stream], [], [], 0)
            return stream.read1(READ_CHUNK_BYTES) if ready else b""  # type: ignore[attr-defined]  # sys.stdin.buffer has it
        except OSError as error:
            raise ConnectError(
                f"reading {_describe_configured_file(self._config)}: {error.strerror}"
            ) from error

    def _convert_lines(self, limit: int | None = None) -> list[SourceRecord]:
        """Convert the complete lines in the buffer to source records, up to `limit` lines."""
        wanted = self._config[BATCH_SIZE_CONFIG] if limit is None else limit
        found: list[SourceRecord] = []
        now_ms = self.context.clock.wall_ms()
        while len(found) < wanted:
            line = self._lines.pop_line()
            if line is None:
                break
            text, size = line
            if self._position is not None:
                self._position += size
            found.append(
                SourceRecord(
                    topic=self._config[TOPIC_CONFIG],
                    value_schema=schema.STRING_SCHEMA,
                    value=text.decode(errors="replace"),
                    timestamp=now_ms,
                    source_partition={FILENAME_FIELD: self._config[FILE_CONFIG]},
                    source_offset={POSITION_FIELD: self._position},
                )
            )
        return found

    def _check_line_length(self) -> None:
        if self._lines.is_too_long:
            at = "" if self._position is None else f" at byte {self._position}"
            raise ConnectError(
                f"reading {_describe_configured_file(self._config)}: the line{at} has more than "
                f"{LINE_BYTES_MAX >> 20} MiB: split it, or use a file whose lines are shorter"
            )

    def stop(self) -> None:
        if self._stream is not None and self._config[FILE_CONFIG]:
            self._stream.close()
        self._stream = None


SINK_CONFIG = ConfigDef().define(
    FILE_CONFIG,
    Type.STRING,
    "The file to append to; standard output if not set.",
    default=None,
)


class FileStreamSinkConnector(SinkConnector):
    """Sink connector that appends records to a file. All its tasks append to the same file."""

    allowed: ClassVar[AllowedPaths] = AllowedPaths()

    def version(self) -> str:
        return compatible_kafka_version.KAFKA_VERSION

    def config(self) -> ConfigDef:
        return SINK_CONFIG

    def validate(self, props: Mapping[str, str]) -> list[ConfigValue]:
        return allowed_paths.add_path_errors(super().validate(props), self.allowed)

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        name = SINK_CONFIG.parse(props)[FILE_CONFIG] or "standard output"
        _log.info("Starting file sink connector writing to %s", name)

    def task_class(self) -> type[Task]:
        return allowed_paths.restrict_plugin_to_paths(FileStreamSinkTask, self.allowed)

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [self.props] * max_tasks

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Accept any offsets. The worker changes the group's committed offsets, and the connector
        itself stores none."""
        return True


class FileStreamSinkTask(SinkTask):
    """Appends each record to a file as a line. The lines are in the file once `flush` has
    returned."""

    allowed: ClassVar[AllowedPaths] = AllowedPaths()

    def __init__(self) -> None:
        self._name: str | None = None
        self._stream: TextIO | None = None

    def version(self) -> str:
        return compatible_kafka_version.KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        self._name = SINK_CONFIG.parse(props)[FILE_CONFIG] or None
        if self._name is None:
            self._stream = sys.stdout
            return
        try:
            opened = self.allowed.open_allowed_file(
                self._name, os.O_WRONLY | os.O_APPEND | os.O_CREAT
            )
            self._stream = open(opened, "a", encoding="utf-8", errors="replace", newline="")  # noqa: SIM115  # closed by `stop`
        except OSError as error:
            raise ConnectError(
                f"Couldn't find or create file '{self._name}' for FileStreamSinkTask: "
                f"{error.strerror}"
            ) from error

    def put(self, sink_records: Sequence[SinkRecord]) -> None:
        stream = self._require_open_stream()
        for each in sink_records:
            stream.write(f"{java_value_formatting.format_value(each.value)}\n")

    def flush(self, offsets: ConsumedOffsets) -> None:
        try:
            self._require_open_stream().flush()
        except OSError as error:
            raise ConnectError(
                f"writing {self._name or 'standard output'}: {error.strerror}"
            ) from error

    def _require_open_stream(self) -> TextIO:
        assert self._stream is not None, "call start before put and flush"
        return self._stream

    def stop(self) -> None:
        if self._stream is not None and self._name is not None:
            self._stream.close()
        self._stream = None
