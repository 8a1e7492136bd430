"""Client properties, as Java spells them, that shape the connections and fetches of copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect_runtime.network import connection_settings
from connect_runtime.network.connection_settings import ConnectionSettings
from connect_runtime.protocol.security_settings import SecuritySettings
from mm2.copier.control_messages import ClusterAccess
from mm2.replication import fetch_sizes

_FETCH_PROPERTIES = (
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "max.partition.fetch.bytes",
)
_RACK_PROPERTY = "client.rack"
COPY_CLIENT_PROPERTIES = connection_settings.CONNECTION_KEYS | {*_FETCH_PROPERTIES, _RACK_PROPERTY}
"""No secret is among them: they travel to the copies as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """`partition_bytes` is the least that is asked of a partition; round trips may raise it.

    rack: ours, "" where replicas are all alike; a replica in it is read for `replica_max_age_s`.
    """

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 32 * 1024 * 1024
    partition_bytes: int = fetch_sizes.FETCH_BYTES_MIN
    rack: str = ""
    replica_max_age_s: float = 300.0


def read_connection_settings(access: ClusterAccess) -> ConnectionSettings:
    """Values were checked when the settings were read."""
    return connection_settings.create_connection_settings(
        access.properties,
        bootstrap=access.bootstrap,
        security=SecuritySettings.from_dict(access.security),
        client_id=access.client_id,
    )


def read_fetch_limits(properties: Mapping[str, str]) -> FetchLimits:
    """From properties as Java spells them, in bytes and milliseconds; what is not set stays at our
    default."""
    names = dict(
        zip(
            _FETCH_PROPERTIES,
            ("max_bytes", "max_wait_ms", "min_bytes", "partition_bytes"),
            strict=True,
        )
    )
    given: dict[str, Any] = {
        option: int(properties[name]) for name, option in names.items() if name in properties
    }
    if "metadata.max.age.ms" in properties:
        given["replica_max_age_s"] = int(properties["metadata.max.age.ms"]) / 1000.0
    return FetchLimits(rack=properties.get(_RACK_PROPERTY, ""), **given)
