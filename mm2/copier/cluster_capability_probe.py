"""Tests which Kafka features a cluster supports by using them (`mm2 probe`).

The target is tested on partition 0 of a scratch topic, with two transactional producers. The first
producer writes a batch, sends the same batch again, and sends a batch with a sequence gap. The
second producer then fences the first, which tries to write once more. The probe records the
broker's responses and does not evaluate them.
"""

from __future__ import annotations

from random import Random
from typing import Protocol, TypeVar

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.network.cluster_connections import ConnectionSettings
from connect_runtime.protocol import varints
from mm2.copier.blocking_client import BlockingClient
from mm2.copier.partition_fencer import BrokerRefusal, PartitionFencer, ProducerIdAndEpoch
from mm2.formats import record_batch, record_codec, record_set_splitter
from mm2.formats.record_codec import BatchRecord, RecordFields
from mm2.replication import cluster_capabilities
from mm2.replication.cluster_capabilities import (
    CapabilityCheck,
    CapabilityCheckResult,
    CheckOutcome,
    ClusterCapabilities,
    ClusterRole,
)

PROBE_RECORD_VALUE = b"mm2 probe: test record of the producer checks, safe to delete"


class BrokerScratchPartition:
    """`ScratchPartition` on a Kafka cluster. All of its transactional producers use the same
    transactional id."""

    def __init__(
        self,
        client: BlockingClient,
        *,
        topic: str,
        transactional_id: str,
        clock: Clock,
    ) -> None:
        self._client = client
        self._topic = topic
        self._fencer = PartitionFencer(
            client,
            TopicPartition(topic, 0),
            transactional_id=transactional_id,
            clock=clock,
        )
        self._clock = clock
        self._marker_start = 0
        self._sent = b""

    def init_transactional_producer(self) -> ProducerIdAndEpoch | BrokerRefusal:
        return self._fencer.init_transactional_producer()

    def init_idempotent_producer(self) -> ProducerIdAndEpoch | BrokerRefusal:
        return self._fencer.init_idempotent_producer()

    def commit_empty_transaction(self, owner: ProducerIdAndEpoch) -> BrokerRefusal | None:
        self._marker_start = self.find_end_offset()
        return self._fencer.commit_empty_transaction(owner)

    def is_marker_readable(self, owner: ProducerIdAndEpoch) -> bool:
        return self._fencer.find_marker(owner, start=self._marker_start) is not None

    def find_end_offset(self) -> int:
        return self._fencer.find_end_offset()

    def produce_record(self, owner: ProducerIdAndEpoch, sequence: int) -> int | BrokerRefusal:
        record = BatchRecord(
            offset=0,
            timestamp=self._clock.wall_ms(),
            body=record_codec.encode_record_body(RecordFields(key=None, value=PROBE_RECORD_VALUE)),
        )
        batch = record_codec.encode_batch([record], codec=0)
        producer = (owner.id, owner.epoch, sequence)
        record_batch.stamp_producer_fields(memoryview(batch), attributes=0, producer=producer)
        answer = self._client.produce(self._topic, memoryview(batch))
        if answer.error_code:
            return BrokerRefusal(code=answer.error_code)
        self._sent = bytes(batch[record_batch.CRC_START :])
        return answer.base_offset

    def is_batch_stored_unchanged(self, offset: int) -> bool:
        fetched_records = memoryview(self._client.fetch(self._topic, offset).records)
        return any(
            header.base_offset == offset and batch[record_batch.CRC_START :] == self._sent
            for header, batch in record_set_splitter.iter_batches(fetched_records)
        )


OUT_OF_ORDER, DUPLICATE_SEQUENCE, INVALID_EPOCH, PRODUCER_FENCED = 45, 46, 47, 90
TRANSACTIONAL_ID_DENIED = 53
SCRATCH_TOPIC_DENIED = frozenset({29, 31})
"""Error codes TOPIC_AUTHORIZATION_FAILED and CLUSTER_AUTHORIZATION_FAILED. For the scratch topic,
they do not imply anything about the permissions on mirror topics."""
TRANSIENT_ERROR_CODES = frozenset({3, 5, 6, 7, 13, 19, 20, 56, 74, 75, 89})
"""Codes of transient errors (leader election, missing replicas, full disk, exceeded quota). They do
not imply anything about the broker's features."""
SEQUENCE_GAP = 1000


_ProbeAnswer = TypeVar("_ProbeAnswer", bound=ProducerIdAndEpoch | BrokerRefusal | int | None)


class ScratchPartition(Protocol):
    """Partition of a scratch topic for the probe. All calls block and raise `ConnectError` if the
    broker does not respond."""

    def init_transactional_producer(self) -> ProducerIdAndEpoch | BrokerRefusal:
        """Send InitProducerId with the transactional id of this probe."""

    def init_idempotent_producer(self) -> ProducerIdAndEpoch | BrokerRefusal:
        """Send InitProducerId without a transactional id. Such a producer cannot be fenced."""

    def commit_empty_transaction(self, owner: ProducerIdAndEpoch) -> BrokerRefusal | None:
        """Commit a transaction without records."""

    def is_marker_readable(self, owner: ProducerIdAndEpoch) -> bool:
        """Return True if the commit marker of the empty transaction becomes readable before the
        timeout."""

    def find_end_offset(self) -> int:
        """Return the log end offset."""

    def produce_record(self, owner: ProducerIdAndEpoch, sequence: int) -> int | BrokerRefusal:
        """Produce a batch of one record outside a transaction and return its acknowledged
        offset."""

    def is_batch_stored_unchanged(self, offset: int) -> bool:
        """Return True if the batch that `produce_record` sent last is stored at `offset`, byte for
        byte."""


class TargetProbe:
    """Runs the capability checks of a target cluster once. If a step fails, `results` still
    contains the results of the steps before it."""

    def __init__(self, scratch: ScratchPartition) -> None:
        self._scratch = scratch
        self.results: dict[CapabilityCheck, CapabilityCheckResult] = {}

    def run(self) -> None:
        """Run all capability checks. Never raises `ConnectError`: checks that could not run have
        the outcome UNKNOWN."""
        try:
            self._run_checks()
        except ConnectError as error:
            for check in CapabilityCheck:
                unknown = CapabilityCheckResult(outcome=CheckOutcome.UNKNOWN, detail=str(error))
                self.results.setdefault(check, unknown)

    def _run_checks(self) -> None:
        first = self._fence_and_create_producer()
        if first is None:
            self._check_idempotent_producer()
            return
        if not self._check_producer_sequence(first):
            return
        second = self._fence_and_create_producer()
        if second is None:
            return
        late = self._produce_record(first, 1)
        self._record_outcome(
            CapabilityCheck.FENCE,
            f"producer {first.id} (epoch {first.epoch}) was fenced by producer {second.id} (epoch "
            f"{second.epoch}); the next write of the fenced producer returned "
            f"{_describe_produce_result(late)}",
            holds=isinstance(late, BrokerRefusal) and late.code in {INVALID_EPOCH, PRODUCER_FENCED},
        )
        own = self._produce_record(second, 0)
        self._record_outcome(
            CapabilityCheck.SUCCESSOR,
            f"the broker returned {_describe_produce_result(own)}",
            holds=not isinstance(own, BrokerRefusal),
        )

    def _check_idempotent_producer(self) -> None:
        """Run the checks that do not need fencing, with an idempotent producer."""
        owner = _raise_if_transient(self._scratch.init_idempotent_producer())
        if isinstance(owner, BrokerRefusal):
            self._record_refusal(CapabilityCheck.OFFSET, owner)
        else:
            self._check_producer_sequence(owner)

    def _fence_and_create_producer(self) -> ProducerIdAndEpoch | None:
        """Initialize a transactional producer, which fences the previous one, and read the commit
        marker of its empty transaction. Return None if a step fails."""
        owner = _raise_if_transient(self._scratch.init_transactional_producer())
        if isinstance(owner, BrokerRefusal):
            self._record_refusal(CapabilityCheck.TRANSACTIONAL_ID, owner)
            return None
        refused = _raise_if_transient(self._scratch.commit_empty_transaction(owner))
        if refused is not None:
            self._record_refusal(CapabilityCheck.TRANSACTIONAL_ID, refused)
            return None
        self._record_outcome(CapabilityCheck.TRANSACTIONAL_ID, holds=True)
        seen = self._scratch.is_marker_readable(owner)
        self._record_outcome(
            CapabilityCheck.MARKER,
            "the commit marker of the empty transaction was not readable before the timeout",
            holds=seen,
        )
        return owner if seen else None

    def _check_producer_sequence(self, owner: ProducerIdAndEpoch) -> bool:
        """Check the acknowledged offset, the stored bytes, and the broker's responses to a
        duplicate batch and to a sequence gap. Return False if the first write fails."""
        expected = self._scratch.find_end_offset()
        sent = self._produce_record(owner, 0)
        if isinstance(sent, BrokerRefusal):
            self._record_refusal(CapabilityCheck.OFFSET, sent)
            return False
        self._record_outcome(
            CapabilityCheck.OFFSET, f"offset {sent} instead of {expected}", holds=sent == expected
        )
        self._record_outcome(
            CapabilityCheck.UNCHANGED,
            "the stored bytes differ from the sent bytes",
            holds=self._scratch.is_batch_stored_unchanged(expected),
        )
        again = self._produce_record(owner, 0)
        stored_twice = self._scratch.find_end_offset() != expected + 1
        refused = isinstance(again, BrokerRefusal) and again.code != DUPLICATE_SEQUENCE
        self._record_outcome(
            CapabilityCheck.DUPLICATE,
            "the broker stored the duplicate"
            if stored_twice
            else f"the broker returned {_describe_produce_result(again)}",
            holds=not stored_twice and not refused,
        )
        gap = self._produce_record(owner, SEQUENCE_GAP)
        self._record_outcome(
            CapabilityCheck.SEQUENCE,
            f"the broker returned {_describe_produce_result(gap)}",
            holds=isinstance(gap, BrokerRefusal) and gap.code == OUT_OF_ORDER,
        )
        return True

    def _produce_record(self, owner: ProducerIdAndEpoch, sequence: int) -> int | BrokerRefusal:
        return _raise_if_transient(self._scratch.produce_record(owner, sequence))

    def _record_outcome(self, check: CapabilityCheck, detail: str = "", *, holds: bool) -> None:
        """Record the outcome of a capability check. A later success does not replace a failure."""
        if holds:
            self.results.setdefault(check, cluster_capabilities.CHECK_HOLDS)
        else:
            self.results[check] = CapabilityCheckResult(outcome=CheckOutcome.FAILS, detail=detail)

    def _record_refusal(self, check: CapabilityCheck, refused: BrokerRefusal) -> None:
        outcome = CheckOutcome.FAILS
        if refused.code == TRANSACTIONAL_ID_DENIED:
            outcome = CheckOutcome.DENIED
        elif refused.code in SCRATCH_TOPIC_DENIED:
            outcome = CheckOutcome.UNKNOWN
        self.results[check] = CapabilityCheckResult(outcome=outcome, detail=str(refused))


def _raise_if_transient(answer: _ProbeAnswer) -> _ProbeAnswer:
    """Raise `RetriableError` if the broker's response is a transient error; otherwise return the
    response unchanged."""
    if isinstance(answer, BrokerRefusal) and answer.code in TRANSIENT_ERROR_CODES:
        raise RetriableError(f"the broker returned {answer}, a transient error: probe again later")
    return answer


def _describe_produce_result(answer: int | BrokerRefusal) -> str:
    return str(answer) if isinstance(answer, BrokerRefusal) else f"offset {answer}"


_TOPIC_SUFFIX_BITS = 32


class ClusterProbe:
    """Probes one cluster over its own connections, which are opened with `settings`."""

    def __init__(
        self,
        alias: str,
        settings: ConnectionSettings,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        self._alias = alias
        self._settings = settings
        self._clock = clock
        self._random = random

    def probe_source(self, topic: str | None = None) -> ClusterCapabilities:
        """Probe a source cluster: supported API versions, and whether topics have ids (checked on
        `topic`).

        Raises `ConnectError` if the cluster does not respond or denies access.
        """
        with self._create_client() as questions:
            spoken = _probe_api_versions(questions, ClusterRole.SOURCE)
            ids = None if topic is None else _has_topic_id(questions, topic)
            return ClusterCapabilities(alias=self._alias, api_versions=spoken, has_topic_ids=ids)

    def probe_target(self, topic: str, *, transactional_prefix: str) -> ClusterCapabilities:
        """Probe a target cluster: supported API versions, and the checks on partition 0 of the
        scratch topic `topic`.

        Raises `ConnectError` if the cluster does not respond or denies access.
        """
        with self._create_client() as questions:
            spoken = _probe_api_versions(questions, ClusterRole.TARGET)
            suffix = f"{self._random.getrandbits(_TOPIC_SUFFIX_BITS):08x}"
            scratch = BrokerScratchPartition(
                questions,
                topic=topic,
                transactional_id=f"{transactional_prefix}probe-{suffix}",
                clock=self._clock,
            )
            probe = TargetProbe(scratch)
            probe.run()
            return ClusterCapabilities(
                alias=self._alias,
                api_versions=spoken,
                has_topic_ids=_has_topic_id(questions, topic),
                checks=probe.results,
            )

    def build_untested_capabilities(self, error: ConnectError) -> ClusterCapabilities:
        """Build the result for a target whose scratch topic could not be created because of
        `error`. The API versions are probed, and every capability check is UNKNOWN."""
        with self._create_client() as questions:
            unknown = CapabilityCheckResult(outcome=CheckOutcome.UNKNOWN, detail=str(error))
            return ClusterCapabilities(
                alias=self._alias,
                api_versions=_probe_api_versions(questions, ClusterRole.TARGET),
                checks=dict.fromkeys(CapabilityCheck, unknown),
            )

    def _create_client(self) -> BlockingClient:
        return BlockingClient(self._settings, clock=self._clock, random=self._random)


def _probe_api_versions(questions: BlockingClient, side: ClusterRole) -> dict[str, int | None]:
    node_id = questions.find_lowest_node()
    return {
        api.name: questions.negotiate_version(node_id, api.key, (api.low, api.high))
        for api in cluster_capabilities.REQUIRED_APIS[side]
    }


def _has_topic_id(questions: BlockingClient, topic: str) -> bool | None:
    try:
        questions.find_leader(topic)
    except ConnectError:
        return None
    return questions.get_topic_id(topic) != varints.NO_TOPIC_ID
