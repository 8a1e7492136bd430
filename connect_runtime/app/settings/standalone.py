"""The settings of a worker alone, from a properties file as Java's ConnectStandalone has it."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass

from connect_runtime.app.settings import worker
from connect_runtime.core.task import worker_config


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(worker.WorkerSettings):
    """`offset_file`: `offset.storage.file.filename`."""

    config: worker_config.StandaloneConfig
    offset_file: pathlib.Path
