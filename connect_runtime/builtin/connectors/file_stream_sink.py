"""FileStreamSink: one line for each record, into a file or to standard output.

Keys are those of Apache's demo connector, lines are what Java prints. Only files under the worker's
`file.stream.allowed.paths` are written.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import ClassVar, TextIO

from connect_runtime.api import config_def, connector, errors, records, task
from connect_runtime.base import ids
from connect_runtime.builtin import java_text, version
from connect_runtime.builtin.connectors import allowed_paths

FILE = "file"

CONFIG = config_def.ConfigDef().define(
    FILE,
    config_def.Type.STRING,
    "Which file to append to. Without one it is standard output.",
    default=None,
)

_log = logging.getLogger(__name__)


class FileStreamSinkConnector(connector.SinkConnector):
    """Every task appends to the same file."""

    allowed: ClassVar[allowed_paths.AllowedPaths] = allowed_paths.AllowedPaths()

    def version(self) -> str:
        return version.KAFKA

    def config(self) -> config_def.ConfigDef:
        return CONFIG

    def validate(self, props: Mapping[str, str]) -> list[config_def.ConfigValue]:
        return allowed_paths.validated(super().validate(props), self.allowed)

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        name = CONFIG.parse(props)[FILE] or "standard output"
        _log.info("Starting file sink connector writing to %s", name)

    def task_class(self) -> type[task.Task]:
        return allowed_paths.restrict_to_paths(FileStreamSinkTask, self.allowed)

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [self.props] * max_tasks

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Mapping[ids.TopicPartition, int | None]
    ) -> bool:
        """The worker's offsets are all there are."""
        return True


class FileStreamSinkTask(task.SinkTask):
    """What was put is in the file once `flush` has returned."""

    allowed: ClassVar[allowed_paths.AllowedPaths] = allowed_paths.AllowedPaths()

    def __init__(self) -> None:
        self._name: str | None = None
        self._stream: TextIO | None = None

    def version(self) -> str:
        return version.KAFKA

    def start(self, props: Mapping[str, str]) -> None:
        self._name = CONFIG.parse(props)[FILE] or None
        if self._name is None:
            self._stream = sys.stdout
            return
        try:
            opened = self.allowed.open(self._name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            self._stream = open(opened, "a", encoding="utf-8", errors="replace", newline="")  # noqa: SIM115  # closed by `stop`
        except OSError as error:
            raise errors.ConnectError(
                f"Couldn't find or create file '{self._name}' for FileStreamSinkTask: "
                f"{error.strerror}"
            ) from error

    def put(self, sink_records: Sequence[records.SinkRecord]) -> None:
        stream = self._opened()
        for each in sink_records:
            stream.write(f"{java_text.of(each.value)}\n")

    def flush(self, offsets: task.Offsets) -> None:
        try:
            self._opened().flush()
        except OSError as error:
            raise errors.ConnectError(
                f"writing {self._name or 'standard output'}: {error.strerror}"
            ) from error

    def _opened(self) -> TextIO:
        assert self._stream is not None, "put and flush come after start"
        return self._stream

    def stop(self) -> None:
        if self._stream is not None and self._name is not None:
            self._stream.close()
        self._stream = None
