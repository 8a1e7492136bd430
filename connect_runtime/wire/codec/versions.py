"""Which version of an API to speak: the newest that both sides know, within the caller's range.

Ranges that stand for decisions, not for what the codecs can do, are named here: transactional
Produce from 12 on adds partitions implicitly and is unsafe beside EndTxn below 5, and clients
stop at AddPartitionsToTxn 3 (4 and up are for brokers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kio.schema import index

from connect_runtime.wire.codec import failures

API_KEYS: Mapping[str, int] = {name: key for key, name in index.api_key_map.items()}
API_NAMES: Mapping[int, str] = dict(index.api_key_map)

PRODUCE_KEY = API_KEYS["produce"]
FETCH_KEY = API_KEYS["fetch"]
API_VERSIONS_KEY = API_KEYS["api_versions"]

FETCH = (12, 17)
"""12: names, brokers since 2.7; 13 and up: topic ids, since 3.1."""
PRODUCE = (7, 13)
TRANSACTIONAL_PRODUCE = (7, 11)
INIT_PRODUCER_ID = (1, 3)
ADD_PARTITIONS_TO_TXN = (0, 3)
END_TXN = (1, 3)


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions low to high, both included."""

    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerVersions:
    """What one broker answered to ApiVersions. `address` is for messages only."""

    address: str
    ranges: Mapping[int, VersionRange] = field(default_factory=dict)

    def choose(self, api_key: int, *, low: int, high: int) -> int:
        """The newest version in [low, high] that the broker knows; raises UnsupportedVersion."""
        theirs = self.ranges.get(api_key)
        if theirs is not None:
            version = min(high, theirs.high)
            if version >= max(low, theirs.low):
                return version
        raise failures.UnsupportedVersion(
            API_NAMES.get(api_key, f"API {api_key}"),
            ours=(low, high),
            theirs=None if theirs is None else (theirs.low, theirs.high),
            address=self.address,
        )

    def knows(self, api_key: int, version: int) -> bool:
        theirs = self.ranges.get(api_key)
        return theirs is not None and theirs.low <= version <= theirs.high
