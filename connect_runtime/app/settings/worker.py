"""What every worker is started with, whether it has a group or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from connect_runtime.core.herder import memory
from connect_runtime.core.state import cluster_config
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.ports import plugins
from connect_runtime.rest import https as rest_https
from connect_runtime.rest import settings as rest_settings
from connect_runtime.wire.codec import tls_settings

Resolve: TypeAlias = Callable[[cluster_config.RawConfig], Mapping[str, str | None]]
"""Fills `${provider:path:key}` of a connector's configuration in, as of now; raises
`ConnectError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Nothing of it is started; `plugins` are imported.

    `file` is where all came from, for messages. `https` and `admin_https` are None where no such
    listener is. `users`: passwords by name, None without basic authentication. `access`: how the
    worker's own clients reach the cluster. `files`: how certificates are read, relative paths from
    where the process was started. `warnings`: what a person should hear once.
    """

    file: str
    rest: rest_settings.RestSettings
    https: rest_https.Https | None
    admin_https: rest_https.Https | None
    users: Mapping[str, str] | None = field(repr=False)
    access: kafka_access.Access
    files: tls_settings.Files
    plugins: plugins.Plugins
    resolve: Resolve
    herder: memory.HerderSettings
    warnings: tuple[str, ...] = ()
