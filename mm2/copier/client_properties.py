"""Kafka client properties that configure the connections and fetches of copy processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect_runtime.network import connection_settings
from connect_runtime.network.connection_settings import ConnectionSettings
from connect_runtime.protocol.security_settings import SecuritySettings
from mm2.copier.control_channel_messages import ClusterAccess
from mm2.replication import fetch_sizes

_FETCH_PROPERTIES = (
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "max.partition.fetch.bytes",
)
_RACK_PROPERTY = "client.rack"
COPY_CLIENT_PROPERTIES = connection_settings.CONNECTION_KEYS | {*_FETCH_PROPERTIES, _RACK_PROPERTY}
"""Kafka client properties that are sent to copy processes unchanged. None of them is secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Limits of fetch requests, in milliseconds and bytes."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 32 * 1024 * 1024
    partition_bytes: int = fetch_sizes.FETCH_BYTES_MIN
    """Minimum number of bytes that a fetch requests per partition. It is increased if round trips
    are slow."""
    rack: str = ""
    """Rack of this client (`client.rack`); "" disables follower fetching."""
    replica_max_age_s: float = 300.0
    """Time for which a preferred read replica is used before records are fetched from the leader
    again (`metadata.max.age.ms`)."""


def parse_connection_settings(access: ClusterAccess) -> ConnectionSettings:
    """Convert a cluster's client properties to connection settings. The values must be valid; they
    were validated when the configuration was loaded."""
    return connection_settings.create_connection_settings(
        access.properties,
        bootstrap=access.bootstrap,
        security=SecuritySettings.from_dict(access.security),
        client_id=access.client_id,
    )


def parse_fetch_limits(properties: Mapping[str, str]) -> FetchLimits:
    """Parse the consumer's fetch properties (bytes, milliseconds). Unset properties keep their
    defaults."""
    names = dict(
        zip(
            _FETCH_PROPERTIES,
            ("max_bytes", "max_wait_ms", "min_bytes", "partition_bytes"),
            strict=True,
        )
    )
    limits: dict[str, Any] = {
        option: int(properties[name]) for name, option in names.items() if name in properties
    }
    if "metadata.max.age.ms" in properties:
        limits["replica_max_age_s"] = int(properties["metadata.max.age.ms"]) / 1000.0
    return FetchLimits(rack=properties.get(_RACK_PROPERTY, ""), **limits)
