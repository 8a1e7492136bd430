"""Public API for applications: inspects mirror topics and translates consumer offsets.

Applications use `from mm2.client import MirrorClient, translate_offsets`; mm2's own code imports
the submodules directly. The README in this directory starts with an example.
"""

from __future__ import annotations

from connect_runtime.base.ids import TopicPartition
from mm2.client.mirror_client import MirrorClient
from mm2.client.offset_translator import OffsetTranslator
from mm2.client.remote_cluster_utils import (
    checkpoint_topics,
    heartbeat_topics,
    remote_topics,
    replication_hops,
    translate_offsets,
    upstream_clusters,
)
from mm2.client.translation_outcomes import (
    Basis,
    BeyondEnd,
    Earlier,
    Exact,
    GroupPlaces,
    NotReady,
    Outcome,
    Place,
    TooOld,
    Unknown,
    get_destination_offset,
)
from mm2.offsets.checkpoint_rules import OffsetAndMetadata

__all__ = [
    "Basis",
    "BeyondEnd",
    "Earlier",
    "Exact",
    "GroupPlaces",
    "MirrorClient",
    "NotReady",
    "OffsetAndMetadata",
    "OffsetTranslator",
    "Outcome",
    "Place",
    "TooOld",
    "TopicPartition",
    "Unknown",
    "checkpoint_topics",
    "get_destination_offset",
    "heartbeat_topics",
    "remote_topics",
    "replication_hops",
    "translate_offsets",
    "upstream_clusters",
]
