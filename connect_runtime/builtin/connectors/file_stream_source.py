"""FileStreamSource: lines of a growing file, or of standard input, into a topic.

Keys, offsets and checks are those of Apache's demo connector. It is no tool for log shipping: a
file that is truncated or replaced is not noticed. Only files under the worker's
`file.stream.allowed.paths` are read.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, ClassVar

from connect_runtime.api import (
    config_def,
    config_validators,
    connector,
    errors,
    records,
    schema,
    task,
)
from connect_runtime.builtin import version
from connect_runtime.builtin.connectors import allowed_paths, line_splitter

FILE = "file"
TOPIC = "topic"
BATCH_SIZE = "batch.size"
FILENAME_FIELD = "filename"
POSITION_FIELD = "position"

CHUNK_BYTES = 64 * 1024
IDLE_S = 1.0

CONFIG = (
    config_def.ConfigDef()
    .define(
        FILE,
        config_def.Type.STRING,
        "Which file to read. Without one it is standard input.",
        default=None,
    )
    .define(
        TOPIC,
        config_def.Type.STRING,
        "Which topic to write the lines to.",
        validator=config_validators.NonEmptyString(),
    )
    .define(
        BATCH_SIZE,
        config_def.Type.INT,
        "How many lines the task gives to the worker at once, at most.",
        default=2000,
        importance=config_def.Importance.LOW,
    )
)

_log = logging.getLogger(__name__)


class FileStreamSourceConnector(connector.SourceConnector):
    """One task, whatever `tasks.max` says: a file has one reader."""

    allowed: ClassVar[allowed_paths.AllowedPaths] = allowed_paths.AllowedPaths()

    def version(self) -> str:
        return version.KAFKA

    def config(self) -> config_def.ConfigDef:
        return CONFIG

    def validate(self, props: Mapping[str, str]) -> list[config_def.ConfigValue]:
        return allowed_paths.validated(super().validate(props), self.allowed)

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        _log.info("Starting file source connector reading from %s", _shown(CONFIG.parse(props)))

    def task_class(self) -> type[task.Task]:
        return allowed_paths.restrict_to_paths(FileStreamSourceTask, self.allowed)

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [self.props]

    def exactly_once_support(self, props: Mapping[str, str]) -> connector.ExactlyOnceSupport:
        """A file has offsets; standard input does not."""
        if CONFIG.parse(props)[FILE]:
            return connector.ExactlyOnceSupport.SUPPORTED
        return connector.ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Sequence[records.SourceOffset]
    ) -> bool:
        if not CONFIG.parse(props)[FILE]:
            raise errors.ConnectError(
                f"Offsets cannot be modified if the '{FILE}' configuration is unspecified. This is "
                "because stdin is used for input and offsets are not tracked."
            )
        for each in offsets:
            # Whatever lies there may be removed.
            if each.offset is not None:
                _check_offset(each.partition, each.offset)
        return True


def _check_offset(partition: Mapping[str, Any] | None, offset: Mapping[str, Any]) -> None:
    if POSITION_FIELD not in offset:
        raise errors.ConnectError(
            f"Offset objects should either be null or contain the key '{POSITION_FIELD}'"
        )
    position = offset[POSITION_FIELD]
    if not isinstance(position, int) or isinstance(position, bool):
        raise errors.ConnectError(
            f"The value for the '{POSITION_FIELD}' key in the offset is expected to be a Long value"
        )
    if position < 0:
        raise errors.ConnectError(
            f"The value for the '{POSITION_FIELD}' key in the offset should be a non-negative value"
        )
    if partition is None:
        raise errors.ConnectError("Partition objects cannot be null")
    if FILENAME_FIELD not in partition:
        raise errors.ConnectError(f"Partition objects should contain the key '{FILENAME_FIELD}'")


def _shown(config: Mapping[str, Any]) -> str:
    return config[FILE] or "standard input"


class FileStreamSourceTask(task.SourceTask):
    """A record's offset is the byte behind its line. (Java counts characters and skips bytes:
    the same in ASCII files, and wrong in others.)"""

    allowed: ClassVar[allowed_paths.AllowedPaths] = allowed_paths.AllowedPaths()

    def __init__(self) -> None:
        self._config: Mapping[str, Any] = {}
        self._stream: BinaryIO | None = None
        self._position: int | None = None
        self._lines = line_splitter.LineSplitter()

    def version(self) -> str:
        return version.KAFKA

    def start(self, props: Mapping[str, str]) -> None:
        self._config = CONFIG.parse(props)
        if not self._config[FILE]:
            self._stream = sys.stdin.buffer

    def poll(self) -> Sequence[records.SourceRecord] | None:
        if self._stream is None:
            self._stream = self._open()
        if self._stream is None:
            self.context.wait(IDLE_S)
            return None
        found = self._take_lines()
        while len(found) < self._config[BATCH_SIZE]:
            chunk = self._read(self._stream)
            if not chunk:
                break
            self._lines.put(chunk)
            found += self._take_lines(self._config[BATCH_SIZE] - len(found))
        if not found:
            self.context.wait(IDLE_S)
        return found or None

    def _open(self) -> BinaryIO | None:
        """None while there is no such file."""
        name = self._config[FILE]
        position = self._stored_position(name)
        try:
            stream = open(self.allowed.open(name, os.O_RDONLY), "rb", buffering=0)  # noqa: SIM115  # closed by `stop`
        except FileNotFoundError:
            _log.warning("Couldn't find file %s, waiting for it to be created", name)
            return None
        except OSError as error:
            raise errors.ConnectError(f"opening {name}: {error.strerror}") from error
        stream.seek(position)
        self._position = position
        return stream

    def _stored_position(self, name: str) -> int:
        stored = self.context.offset_reader.offset({FILENAME_FIELD: name}) or {}
        position = stored.get(POSITION_FIELD)
        if position is None:
            return 0
        if not isinstance(position, int) or isinstance(position, bool):
            raise errors.ConnectError(
                f"The stored position in {name} is no whole number: change or remove the "
                "connector's offsets."
            )
        return position

    def _read(self, stream: BinaryIO) -> bytes:
        """What is there now, up to CHUNK_BYTES; nothing if there is none."""
        try:
            if self._config[FILE]:
                return stream.read(CHUNK_BYTES)
            ready, _, _ = select.select([stream], [], [], 0)
            return stream.read1(CHUNK_BYTES) if ready else b""  # type: ignore[attr-defined]  # sys.stdin.buffer has it
        except OSError as error:
            raise errors.ConnectError(
                f"reading {_shown(self._config)}: {error.strerror}"
            ) from error

    def _take_lines(self, limit: int | None = None) -> list[records.SourceRecord]:
        """Whole lines that were read already."""
        wanted = self._config[BATCH_SIZE] if limit is None else limit
        found: list[records.SourceRecord] = []
        now_ms = self.context.clock.wall_ms()
        while len(found) < wanted:
            line = self._lines.next_line()
            if line is None:
                break
            text, size = line
            if self._position is not None:
                self._position += size
            found.append(
                records.SourceRecord(
                    topic=self._config[TOPIC],
                    value_schema=schema.STRING_SCHEMA,
                    value=text.decode(errors="replace"),
                    timestamp=now_ms,
                    source_partition={FILENAME_FIELD: self._config[FILE]},
                    source_offset={POSITION_FIELD: self._position},
                )
            )
        return found

    def stop(self) -> None:
        if self._stream is not None and self._config[FILE]:
            self._stream.close()
        self._stream = None
