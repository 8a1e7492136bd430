"""Negotiates API versions: selects the newest version that client and broker both support, within
the caller's range.

For some APIs, the codecs support more versions than clients may safely use. The constants of this
module define the allowed versions. Since version 12, transactional Produce adds partitions
implicitly, which is unsafe with EndTxn below version 5. AddPartitionsToTxn 4 and later is reserved
for brokers, so clients use version 3 or lower.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kio.schema import index

from connect_runtime.protocol.request_errors import UnsupportedVersion

API_KEYS: Mapping[str, int] = {name: key for key, name in index.api_key_map.items()}
API_NAMES: Mapping[int, str] = dict(index.api_key_map)

PRODUCE_KEY = API_KEYS["produce"]
FETCH_KEY = API_KEYS["fetch"]
API_VERSIONS_KEY = API_KEYS["api_versions"]

FETCH_VERSIONS = (12, 17)
"""Range of Fetch versions that this client uses. Version 12 identifies topics by name (brokers 2.7
and later); versions 13 to 17 use topic ids (brokers 3.1 and later)."""
PRODUCE_VERSIONS = (7, 13)
TRANSACTIONAL_PRODUCE_VERSIONS = (7, 11)
INIT_PRODUCER_ID_VERSIONS = (1, 3)
ADD_PARTITIONS_TO_TXN_VERSIONS = (0, 3)
END_TXN_VERSIONS = (1, 3)


@dataclass(frozen=True, slots=True)
class ApiVersionRange:
    """Range of API versions from `low` to `high`, both inclusive."""

    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeApiVersions:
    """The API version ranges that a broker supports. `address` is the broker's address for error
    messages."""

    address: str
    ranges: Mapping[int, ApiVersionRange] = field(default_factory=dict)

    def choose_version(self, api_key: int, *, low: int, high: int) -> int:
        """Return the newest version from `low` to `high` that the broker supports. Raises
        `UnsupportedVersion` if there is no such version."""
        theirs = self.ranges.get(api_key)
        if theirs is not None:
            version = min(high, theirs.high)
            if version >= max(low, theirs.low):
                return version
        raise UnsupportedVersion(
            API_NAMES.get(api_key, f"API {api_key}"),
            client_versions=(low, high),
            broker_versions=None if theirs is None else (theirs.low, theirs.high),
            address=self.address,
        )

    def supports_version(self, api_key: int, version: int) -> bool:
        """Return True if the broker supports this version of the API."""
        theirs = self.ranges.get(api_key)
        return theirs is not None and theirs.low <= version <= theirs.high
