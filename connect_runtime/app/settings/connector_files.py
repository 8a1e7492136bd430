"""The connectors that `connect-standalone` is started with, each from a file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.core.state import cluster_config


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """`config` is raw, `name` among it. `target_state` None: as ever, or STARTED."""

    name: str
    config: Mapping[str, str | None] = field(repr=False)
    target_state: cluster_config.TargetState | None = None
