"""Version-independent builders of Kafka requests, and the targets (brokers) of requests.

One function per Kafka API returns a `RequestBuilder`. `RequestBuilder.build(version, m)` receives
the module `kio.schema.<api>.v<version>.request`, which contains the entity and its nested types,
and handles fields that differ between versions. A `RequestTarget` identifies the broker by id or by
role: any broker, the controller, a partition leader or a coordinator.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import kio.index
from kio.static.constants import EntityType

from connect_runtime.protocol import api_versions, request_framing
from connect_runtime.protocol.request_errors import MalformedResponseError

GROUP_COORDINATOR = 0
"""Coordinator type of consumer and Connect groups."""
TRANSACTION_COORDINATOR = 1
"""Coordinator type of transactional ids."""


@dataclass(frozen=True, slots=True)
class NodeTarget:
    """Request target: the broker with this id."""

    node_id: int

    def __str__(self) -> str:
        return f"broker {self.node_id}"


@dataclass(frozen=True, slots=True)
class AnyNodeTarget:
    """Request target: any reachable broker."""

    def __str__(self) -> str:
        return "any broker"


@dataclass(frozen=True, slots=True)
class ControllerTarget:
    """Request target: the cluster's controller. With KRaft, any broker forwards the request to the
    controller."""

    def __str__(self) -> str:
        return "the controller"


@dataclass(frozen=True, slots=True)
class LeaderTarget:
    """Request target: the leader of a partition. The topic's metadata must have been requested
    before."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"the leader of {self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class CoordinatorKey:
    """Request target: the coordinator of the group or transactional id `key`. `kind` is the
    key type of FindCoordinator."""

    kind: int
    key: str

    def __str__(self) -> str:
        return f"the coordinator of {self.describe_group_or_transactional_id()}"

    def describe_group_or_transactional_id(self) -> str:
        """Describe the group or transactional id, for error messages."""
        return f"{'group' if self.kind == GROUP_COORDINATOR else 'transactional id'} {self.key}"


RequestTarget: TypeAlias = (
    NodeTarget | AnyNodeTarget | ControllerTarget | LeaderTarget | CoordinatorKey
)


BROKERS_MAX = 5_000
"""Maximum number of brokers of a cluster, several times the size of the largest known clusters.
Every broker costs memory, and time in each iteration of the network loop."""
HOST_LENGTH_MAX = 255
"""Maximum length of a host name (RFC 1035)."""
PORT_MAX = 65_535

BuildRequest = Callable[[int, Any], Any]
ReadResponse = Callable[[int, memoryview], Any]
"""Decodes a response from (version, bytes). Must not keep a reference to the bytes. Raises
`MalformedResponseError`."""

_METADATA_WITH_TOPIC_IDS = 10
_METADATA_WITH_OPERATIONS = 8
_METADATA_WITH_CLUSTER_OPERATIONS_LAST = 10
_LIST_OFFSETS_WITH_TIMEOUT = 10
_EPOCH_END_WITH_REPLICA = 3
_ACKS_ALL = -1
_PRODUCE_BY_NAME_MAX = 12
_CONSUMER_REPLICA_ID = -1
"""Replica id that marks the sender of a request as a consumer, not a follower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBuilder:
    """A request that can be encoded in any version from `low` to `high`.

    `read` decodes the response; None decodes it to an entity of the kio library.
    """

    api: str
    low: int
    high: int
    build: BuildRequest
    read: ReadResponse | None = None

    @property
    def api_key(self) -> int:
        """Kafka's numeric API key of the request."""
        return api_versions.API_KEYS[self.api]

    def build_request_message(self, version: int) -> Any:
        """Build the request in the given version, as an entity of the kio library."""
        module = kio.index.load_payload_module(self.api_key, version, EntityType.request)
        return self.build(version, module)

    def decode_response(self, version: int, body: memoryview) -> Any:
        """Decode a response body in the given version. Raises `MalformedResponseError`."""
        if self.read is not None:
            return self.read(version, body)
        return request_framing.decode_response(self.get_response_type(version), body)

    def get_response_type(self, version: int) -> type[Any]:
        """Return the kio library's response class for the given version."""
        return kio.index.load_response_schema(self.api_key, version)


def build_api_versions_request(*, software_version: str) -> RequestBuilder:
    """Build a request for the API versions that a broker supports."""

    def build_request_message(version: int, m: Any) -> Any:
        return m.ApiVersionsRequest(
            client_software_name="mm2-python", client_software_version=software_version
        )

    return RequestBuilder(api="api_versions", low=3, high=3, build=build_request_message)


def build_metadata_request(topics: Sequence[str] | None) -> RequestBuilder:
    """Build a request for the metadata of the brokers, the controller and the given topics (None
    for all topics). Missing topics are not created."""

    def build_request_message(version: int, m: Any) -> Any:
        if version >= _METADATA_WITH_TOPIC_IDS:
            wanted = [m.MetadataRequestTopic(topic_id=None, name=name) for name in topics or ()]
        else:
            wanted = [m.MetadataRequestTopic(name=name) for name in topics or ()]
        refused: dict[str, bool] = {"allow_auto_topic_creation": False}
        if version >= _METADATA_WITH_OPERATIONS:
            refused["include_topic_authorized_operations"] = False
            if version <= _METADATA_WITH_CLUSTER_OPERATIONS_LAST:
                refused["include_cluster_authorized_operations"] = False
        return m.MetadataRequest(topics=None if topics is None else tuple(wanted), **refused)

    return RequestBuilder(
        api="metadata", low=7, high=13, build=build_request_message, read=_decode_metadata_response
    )


def _decode_metadata_response(version: int, body: memoryview) -> Any:
    schema = kio.index.load_response_schema(api_versions.API_KEYS["metadata"], version)
    response = request_framing.decode_response(schema, body)
    problem = _find_invalid_broker(response.brokers)
    if problem is not None:
        raise MalformedResponseError("metadata", version, problem)
    return response


def _find_invalid_broker(brokers: Sequence[Any]) -> str | None:
    """Return an error message about the first invalid broker in a decoded Metadata response; None
    if all brokers are valid."""
    if len(brokers) > BROKERS_MAX:
        return f"{len(brokers)} brokers, but at most {BROKERS_MAX} are supported"
    for broker in brokers:
        if broker.node_id < 0:
            return f"the broker id {broker.node_id} is negative"
        if not 0 < broker.port <= PORT_MAX:
            return (
                f"broker {broker.node_id} has port {broker.port}, but ports must be from 1 to "
                f"{PORT_MAX}"
            )
        if not 0 < len(broker.host) <= HOST_LENGTH_MAX:
            return (
                f"broker {broker.node_id} has a host name of {len(broker.host)} characters; the "
                f"length must be from 1 to {HOST_LENGTH_MAX}"
            )
        if not broker.host.isprintable():
            return f"broker {broker.node_id} has a host name with control characters"
    return None


def build_find_coordinators_request(kind: int, keys: Sequence[str]) -> RequestBuilder:
    """Build a request that finds the coordinators of several groups or transactional ids at once
    (KIP-699)."""

    def build_request_message(version: int, m: Any) -> Any:
        return m.FindCoordinatorRequest(key_type=kind, coordinator_keys=tuple(keys))

    return RequestBuilder(api="find_coordinator", low=4, high=6, build=build_request_message)


def build_find_coordinator_request(kind: int, key: str) -> RequestBuilder:
    """Build a request that finds the coordinator of one group or transactional id, for brokers
    before 3.0."""

    def build_request_message(version: int, m: Any) -> Any:
        return m.FindCoordinatorRequest(key_type=kind, key=key)

    return RequestBuilder(api="find_coordinator", low=1, high=3, build=build_request_message)


def build_init_producer_id_request(transactional_id: str | None, timeout_ms: int) -> RequestBuilder:
    """Build a request for a producer id and epoch. With a transactional id, it fences older
    producers with the same id."""

    def build_request_message(version: int, m: Any) -> Any:
        return m.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout=datetime.timedelta(milliseconds=timeout_ms),
        )

    low, high = api_versions.INIT_PRODUCER_ID_VERSIONS
    return RequestBuilder(api="init_producer_id", low=low, high=high, build=build_request_message)


def build_produce_request(
    topic: str, partition: int, batch: bytes, *, timeout_ms: int
) -> RequestBuilder:
    """Build a request that appends one record batch outside a transaction, acknowledged by all
    in-sync replicas. Send it to the partition leader."""

    def build_request_message(_: int, m: Any) -> Any:
        data = m.PartitionProduceData(index=partition, records=batch)
        return m.ProduceRequest(
            transactional_id=None,
            acks=_ACKS_ALL,
            timeout=datetime.timedelta(milliseconds=timeout_ms),
            topic_data=(m.TopicProduceData(name=topic, partition_data=(data,)),),
        )

    low, _ = api_versions.PRODUCE_VERSIONS
    return RequestBuilder(
        api="produce", low=low, high=_PRODUCE_BY_NAME_MAX, build=build_request_message
    )


def build_add_partitions_to_txn_request(
    transactional_id: str, *, producer_id: int, epoch: int, topics: Mapping[str, Collection[int]]
) -> RequestBuilder:
    """Build a request that adds partitions to a producer's current transaction."""

    def build_request_message(version: int, m: Any) -> Any:
        added = tuple(
            m.AddPartitionsToTxnTopic(name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        )
        return m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=added,
        )

    low, high = api_versions.ADD_PARTITIONS_TO_TXN_VERSIONS
    return RequestBuilder(
        api="add_partitions_to_txn", low=low, high=high, build=build_request_message
    )


def build_end_txn_request(
    transactional_id: str, *, producer_id: int, epoch: int, committed: bool
) -> RequestBuilder:
    """Build a request that commits or aborts a producer's current transaction."""

    def build_request_message(version: int, m: Any) -> Any:
        return m.EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=committed,
        )

    low, high = api_versions.END_TXN_VERSIONS
    return RequestBuilder(api="end_txn", low=low, high=high, build=build_request_message)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetQuery:
    """A query for a partition's offset at a timestamp in ms. The timestamp -1 means the latest
    offset, -2 the earliest (KIP-79)."""

    partition: int
    timestamp: int
    leader_epoch: int = -1


def build_list_offsets_request(
    topics: Mapping[str, Sequence[OffsetQuery]], *, read_committed: bool, timeout_ms: int = 30_000
) -> RequestBuilder:
    """Build a request that looks up offsets by timestamp. Send it to the partitions' leaders.

    With `read_committed`, the latest offset is the last stable offset.
    """

    def build_request_message(version: int, m: Any) -> Any:
        asked = tuple(
            m.ListOffsetsTopic(
                name=name,
                partitions=tuple(
                    m.ListOffsetsPartition(
                        partition_index=query.partition,
                        current_leader_epoch=query.leader_epoch,
                        timestamp=query.timestamp,
                    )
                    for query in queries
                ),
            )
            for name, queries in topics.items()
        )
        limits: dict[str, Any] = {}
        if version >= _LIST_OFFSETS_WITH_TIMEOUT:
            limits["timeout"] = datetime.timedelta(milliseconds=timeout_ms)
        return m.ListOffsetsRequest(
            replica_id=_CONSUMER_REPLICA_ID,
            isolation_level=int(read_committed),
            topics=asked,
            **limits,
        )

    return RequestBuilder(api="list_offsets", low=4, high=11, build=build_request_message)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndOffsetQuery:
    """A query for the end offset of `leader_epoch` in a partition. If `current_epoch` is not the
    leader's current epoch, the leader responds with FENCED_LEADER_EPOCH (74) or
    UNKNOWN_LEADER_EPOCH (75)."""

    partition: int
    current_epoch: int
    leader_epoch: int


def build_offsets_for_leader_epochs_request(
    topics: Mapping[str, Sequence[EpochEndOffsetQuery]],
) -> RequestBuilder:
    """Build a request that looks up the end offsets of leader epochs (KIP-320). Send it to the
    partitions' leaders.

    The end offset is -1 if the leader does not know the epoch.
    """

    def build_request_message(version: int, m: Any) -> Any:
        asked = tuple(
            m.OffsetForLeaderTopic(
                topic=name,
                partitions=tuple(
                    m.OffsetForLeaderPartition(
                        partition=query.partition,
                        current_leader_epoch=query.current_epoch,
                        leader_epoch=query.leader_epoch,
                    )
                    for query in queries
                ),
            )
            for name, queries in topics.items()
        )
        if version >= _EPOCH_END_WITH_REPLICA:
            return m.OffsetForLeaderEpochRequest(replica_id=_CONSUMER_REPLICA_ID, topics=asked)
        return m.OffsetForLeaderEpochRequest(topics=asked)

    return RequestBuilder(api="offset_for_leader_epoch", low=2, high=4, build=build_request_message)


def build_describe_producers_request(topics: Mapping[str, Collection[int]]) -> RequestBuilder:
    """Build a request that lists the active producers and open transactions of partitions
    (KIP-664). Send it to the partitions' leaders."""

    def build_request_message(version: int, m: Any) -> Any:
        asked = tuple(
            m.TopicRequest(name=name, partition_indexes=tuple(partitions))
            for name, partitions in topics.items()
        )
        return m.DescribeProducersRequest(topics=asked)

    return RequestBuilder(api="describe_producers", low=0, high=0, build=build_request_message)
