"""The connectors that `connect-standalone` is started with, each from a file of its own.

A file is tried as Java's ConnectStandalone does: a JSON object of the configuration alone; a JSON
object as `POST /connectors` takes it, where unknown names are passed over; Java properties.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.adapters.config import properties_source
from connect_runtime.api import errors
from connect_runtime.core.state import cluster_config
from connect_runtime.rest import bodies
from connect_runtime.system import file_bytes

_NAME = "name"
_BYTES_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """`config` is raw, `name` among it. `target_state` None: as ever, or STARTED."""

    name: str
    config: Mapping[str, str | None] = field(repr=False)
    target_state: cluster_config.TargetState | None = None


def read(path: pathlib.Path) -> Connector:
    """Raises `ConfigError`; no value is in its message."""
    try:
        content = file_bytes.read(path, most=_BYTES_MAX)
    except OSError as error:
        raise errors.ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        return parse(content)
    except errors.ConfigError as error:
        raise errors.ConfigError(f"{path}: {error}") from None


def parse(content: bytes) -> Connector:
    """The content of such a file. Raises `ConfigError`."""
    if content.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return _from_json(content)
    try:
        found = properties_source.parse(content.decode("iso-8859-1"))
    except ValueError as error:
        raise errors.ConfigError(str(error)) from None
    return _named(found)


def _from_json(content: bytes) -> Connector:
    try:
        return _named(bodies.config(content))
    except bodies.Unreadable as error:
        alone = str(error)
    try:
        request = bodies.creation(content, others=True)
    except bodies.Unreadable as error:
        words = str(error)
        both = alone if words == alone else f"as a configuration {alone}; as a request {words}"
        raise errors.ConfigError(both) from None
    given = request.config.get(_NAME, request.name)
    if given != request.name:
        raise errors.ConfigError(
            "the 'name' in 'config' is another than the 'name' beside it; give one of them"
        )
    if not request.name:
        raise errors.ConfigError("the connector has no 'name'; add it")
    return Connector(
        name=request.name,
        config={**request.config, _NAME: request.name},
        target_state=request.initial_state,
    )


def _named(config: Mapping[str, str | None]) -> Connector:
    name = config.get(_NAME)
    if not name:
        raise errors.ConfigError(f"the connector has no '{_NAME}'; add it")
    return Connector(name=name, config=config)
