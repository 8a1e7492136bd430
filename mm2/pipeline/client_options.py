"""Client properties, as Java spells them, that shape the copies' own connections and fetches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect_runtime.wire.codec import security_settings
from connect_runtime.wire.connection import client_properties, settings
from mm2.core.copy import fetch_sizes, messages

_FETCH = (
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "max.partition.fetch.bytes",
)
_RACK = "client.rack"
NAMES = client_properties.NAMES | {*_FETCH, _RACK}
"""No secret is among them: they travel to the copies as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """`partition_bytes` is the least that is asked of a partition; round trips may raise it.

    rack: ours, "" where replicas are all alike; a replica in it is read for `replica_max_age_s`.
    """

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 32 * 1024 * 1024
    partition_bytes: int = fetch_sizes.SMALLEST_BYTES
    rack: str = ""
    replica_max_age_s: float = 300.0


def connection_settings(access: messages.ClusterAccess) -> settings.ConnectionSettings:
    """Values were checked when the settings were read."""
    return client_properties.settings(
        access.properties,
        bootstrap=access.bootstrap,
        security=security_settings.Security.from_dict(access.security),
        client_id=access.client_id,
    )


def fetch_limits(properties: Mapping[str, str]) -> FetchLimits:
    """From properties as Java spells them, in bytes and milliseconds; what is not set stays at our
    default."""
    names = dict(
        zip(_FETCH, ("max_bytes", "max_wait_ms", "min_bytes", "partition_bytes"), strict=True)
    )
    given: dict[str, Any] = {
        option: int(properties[name]) for name, option in names.items() if name in properties
    }
    if "metadata.max.age.ms" in properties:
        given["replica_max_age_s"] = int(properties["metadata.max.age.ms"]) / 1000.0
    return FetchLimits(rack=properties.get(_RACK, ""), **given)
