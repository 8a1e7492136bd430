"""The settings of a worker alone: the properties that ConnectStandalone takes."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.app.settings import properties_file, rest_exposure, worker, worker_reader
from connect_runtime.core.herder import memory
from connect_runtime.core.task import worker_config, worker_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(worker.WorkerSettings):
    """`offset_file`: `offset.storage.file.filename`."""

    config: worker_config.StandaloneConfig
    offset_file: pathlib.Path


def read(path: pathlib.Path, *, environment: Mapping[str, str] = os.environ) -> Settings:
    """From a file, whose plugins are imported. Raises `SettingsError` with all that is wrong."""
    source = worker_reader.Source(
        file=str(path), folder=pathlib.Path.cwd(), environment=environment
    )
    return parse(properties_file.text(path), source)


def parse(content: str, source: worker_reader.Source) -> Settings:
    """As `read`, of text that is already at hand."""
    given = properties_file.parse(
        content, file=source.file, folder=source.folder, environment=source.environment
    )
    account, parts = worker_reader.read(source, given, worker_keys.STANDALONE)
    rest_exposure.warn(account, parts.rest, in_group=False)
    warnings = account.finish()
    config = worker_config.standalone(parts.properties)
    return Settings(
        **worker_reader.settings(source, parts, warnings),
        herder=memory.HerderSettings(topics_tracked=config.topic_tracking),
        config=config,
        offset_file=source.folder / config.offset_file,
    )
