"""Reads the settings of a standalone worker, and the connector files of `connect-standalone`.

A connector file is parsed as in Java's ConnectStandalone, in this order: as a JSON object with only
the configuration; as a JSON object as in `POST /connectors`, ignoring unknown fields; as Java
properties.
"""

from __future__ import annotations

import logging
import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.api.errors import ConfigError
from connect_runtime.app import rest_listeners, worker_settings
from connect_runtime.app.worker_settings import WorkerSettings, WorkerSettingsSource
from connect_runtime.config import (
    config_errors,
    java_properties,
    properties_file,
    worker_config,
    worker_config_keys,
)
from connect_runtime.config.worker_config import StandaloneConfig
from connect_runtime.herder.herder_state import HerderSettings
from connect_runtime.rest import request_bodies
from connect_runtime.rest.request_bodies import UnreadableBody
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.system import secure_file_access

_LOG = logging.getLogger(__name__)

_NAME_KEY = "name"
_MAX_FILE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorFile:
    """A parsed connector file."""

    name: str
    config: Mapping[str, str | None] = field(repr=False)
    """Connector configuration, including `name`, with unresolved `${provider:path:key}`
    references."""
    target_state: TargetState | None = None
    """Initial state of the connector. If it is None, a new connector is STARTED, and an existing
    connector keeps its state."""


def read_connector_file(path: pathlib.Path) -> ConnectorFile:
    """Read a connector file.

    Raises `ConfigError` if the file cannot be read or is invalid, or if another user can write to
    the file and it contains `${…}` references. The message contains no configuration values.
    """
    try:
        content, writer = secure_file_access.read_file_and_find_untrusted_writer(
            path, max_bytes=_MAX_FILE_BYTES
        )
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        found = parse_connector_file(content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if writer is not None:
        can_write, remedy = config_errors.explain_other_user_write_access(path, writer)
        values = ((0, key, value) for key, value in found.config.items() if value is not None)
        because = f"but {can_write}; to fix this, {remedy}"
        problems = config_errors.build_placeholder_problems(values, because)
        if problems:
            raise ConfigError(f"{path}: {problems[0].key} {problems[0].text}")
        _LOG.warning("%s: %s; to prevent this, %s", path, can_write, remedy)
    return found


def parse_connector_file(content: bytes) -> ConnectorFile:
    """Parse the content of a connector file. Raises `ConfigError` if it is malformed or contains no
    connector name."""
    if content.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return _parse_json_connector_file(content)
    try:
        found = java_properties.parse_properties(content.decode("iso-8859-1"))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return _build_named_connector(found)


def _parse_json_connector_file(content: bytes) -> ConnectorFile:
    try:
        return _build_named_connector(request_bodies.parse_config(content))
    except UnreadableBody as error:
        alone = str(error)
    try:
        request = request_bodies.parse_create_request(content, ignore_unknown=True)
    except UnreadableBody as error:
        words = str(error)
        both = (
            alone
            if words == alone
            else f"invalid as a connector configuration ({alone}) and as a request to create a"
            f" connector ({words})"
        )
        raise ConfigError(both) from None
    given = request.config.get(_NAME_KEY, request.name)
    if given != request.name:
        raise ConfigError(
            "the 'name' within 'config' differs from the 'name' outside 'config'; remove one of"
            " them"
        )
    if not request.name:
        raise ConfigError("the connector has no 'name'; add it")
    return ConnectorFile(
        name=request.name,
        config={**request.config, _NAME_KEY: request.name},
        target_state=request.initial_state,
    )


def _build_named_connector(config: Mapping[str, str | None]) -> ConnectorFile:
    name = config.get(_NAME_KEY)
    if not name:
        raise ConfigError(f"the connector has no '{_NAME_KEY}'; add it")
    return ConnectorFile(name=name, config=config)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneSettings(WorkerSettings):
    """Settings of a standalone worker."""

    config: StandaloneConfig
    offset_file: pathlib.Path
    """File that stores source offsets (`offset.storage.file.filename`)."""


def read_settings(
    path: pathlib.Path, *, environment: Mapping[str, str] = os.environ
) -> StandaloneSettings:
    """Read a standalone worker's properties file and import its plugins.

    Raises `SettingsError` with all problems.
    """
    source = WorkerSettingsSource(
        file=str(path), folder=pathlib.Path.cwd(), environment=environment
    )
    return parse_settings(properties_file.read_properties_text(path), source)


def parse_settings(content: str, source: WorkerSettingsSource) -> StandaloneSettings:
    """Parse the content of a standalone worker's properties file and import its plugins.

    Raises `SettingsError` with all problems.
    """
    given = properties_file.parse_properties_file(
        content, file=source.file, folder=source.folder, environment=source.environment
    )
    account, parts = worker_settings.read_common_settings(
        source, given, worker_config_keys.STANDALONE
    )
    rest_listeners.warn_about_exposed_rest_api(account, parts.rest, in_group=False)
    warnings = account.raise_errors_or_get_warnings()
    config = worker_config.parse_standalone_config(parts.properties)
    return StandaloneSettings(
        **worker_settings.build_common_settings(source, parts, warnings),
        herder=HerderSettings(topics_tracked=config.topic_tracking),
        config=config,
        offset_file=source.folder / config.offset_file,
    )
