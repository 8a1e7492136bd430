"""Finds out what a cluster supports by trying it: the input of the capability report of `mm2
probe`.

The target is tested on partition 0 of a scratch topic. Two transactional producers write one
after the other: the first writes, repeats a batch, and leaves a sequence gap; the second fences
it, and the first tries to write once more. The probe records what the broker answers and decides
nothing.
"""

from __future__ import annotations

from random import Random
from typing import Protocol, TypeVar

from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock
from connect_runtime.network.cluster_connections import ConnectionSettings
from connect_runtime.protocol import varints
from mm2.copier.blocking_client import BlockingClient
from mm2.copier.partition_fencer import BrokerRefusal, PartitionFencer, ProducerIdAndEpoch
from mm2.formats import record_batch, record_sets, records
from mm2.formats.records import BatchRecord, RecordFields
from mm2.replication import capabilities
from mm2.replication.capabilities import (
    CapabilityCheck,
    CapabilityCheckResult,
    CheckOutcome,
    ClusterCapabilities,
    ClusterRole,
)

PROBE_RECORD_VALUE = b"mm2 probe: what this cluster does with producers; nothing reads it"


class BrokerScratchPartition:
    """Implements `target_probe.ScratchPartition` under one transactional id."""

    def __init__(
        self,
        questions: BlockingClient,
        *,
        topic: str,
        transactional_id: str,
        clock: Clock,
    ) -> None:
        self._questions = questions
        self._topic = topic
        self._fenced = PartitionFencer(
            questions,
            TopicPartition(topic, 0),
            transactional_id=transactional_id,
            clock=clock,
        )
        self._clock = clock
        self._marker_from = 0
        self._sent = b""

    def new_owner(self) -> ProducerIdAndEpoch | BrokerRefusal:
        return self._fenced.new_owner()

    def new_plain_owner(self) -> ProducerIdAndEpoch | BrokerRefusal:
        return self._fenced.new_plain_owner()

    def commit_empty(self, owner: ProducerIdAndEpoch) -> BrokerRefusal | None:
        self._marker_from = self.end()
        return self._fenced.commit_empty(owner)

    def marker_seen(self, owner: ProducerIdAndEpoch) -> bool:
        return self._fenced.marker_of(owner, start=self._marker_from) is not None

    def end(self) -> int:
        return self._fenced.end()

    def send(self, owner: ProducerIdAndEpoch, sequence: int) -> int | BrokerRefusal:
        record = BatchRecord(
            offset=0,
            timestamp=self._clock.wall_ms(),
            body=records.encode_body(RecordFields(key=None, value=PROBE_RECORD_VALUE)),
        )
        batch = records.encode_batch([record], codec=0)
        producer = (owner.id, owner.epoch, sequence)
        record_batch.stamp_producer(memoryview(batch), attributes=0, producer=producer)
        answer = self._questions.produce(self._topic, memoryview(batch))
        if answer.error_code:
            return BrokerRefusal(code=answer.error_code)
        self._sent = bytes(batch[record_batch.CRC_START :])
        return answer.base_offset

    def unchanged(self, offset: int) -> bool:
        fetched = memoryview(self._questions.fetch(self._topic, offset).records)
        return any(
            header.base_offset == offset and batch[record_batch.CRC_START :] == self._sent
            for header, batch in record_sets.iter_batches(fetched)
        )


OUT_OF_ORDER, DUPLICATE_SEQUENCE, INVALID_EPOCH, PRODUCER_FENCED = 45, 46, 47, 90
TRANSACTIONAL_ID_DENIED = 53
SCRATCH_TOPIC_DENIED = frozenset({29, 31})
"""TOPIC_ and CLUSTER_AUTHORIZATION_FAILED: of the scratch topic, which says nothing of mirrors."""
TRANSIENT_ERROR_CODES = frozenset({3, 5, 6, 7, 13, 19, 20, 56, 74, 75, 89})
"""While leaders move, replicas are missing, a disk or a quota is full: brokers' answers of the
moment, which say nothing of what they can do."""
SEQUENCE_GAP = 1000


_ProbeAnswer = TypeVar("_ProbeAnswer", bound=ProducerIdAndEpoch | BrokerRefusal | int | None)


class ScratchPartition(Protocol):
    """A partition of our own. Every call waits, and raises `ConnectError` when nobody answers."""

    def new_owner(self) -> ProducerIdAndEpoch | BrokerRefusal:
        """InitProducerId with the transactional id of this probe."""

    def new_plain_owner(self) -> ProducerIdAndEpoch | BrokerRefusal:
        """InitProducerId without a transactional id: nobody can fence it."""

    def commit_empty(self, owner: ProducerIdAndEpoch) -> BrokerRefusal | None:
        """A transaction with nothing in it."""

    def marker_seen(self, owner: ProducerIdAndEpoch) -> bool:
        """Can the marker of its empty transaction be read, within a deadline?"""

    def end(self) -> int:
        """The offset that the next batch gets."""

    def send(self, owner: ProducerIdAndEpoch, sequence: int) -> int | BrokerRefusal:
        """A batch of one record, outside transactions; its acknowledged offset."""

    def unchanged(self, offset: int) -> bool:
        """Does the batch that `send` sent last stand at `offset`, byte for byte?"""


class TargetProbe:
    """`run` once. Answers stay where they are when a later step cannot be taken."""

    def __init__(self, scratch: ScratchPartition) -> None:
        self._scratch = scratch
        self.answers: dict[CapabilityCheck, CapabilityCheckResult] = {}

    def run(self) -> None:
        """Never raises for what the cluster does: what was not tried stays unknown."""
        try:
            self._try_all()
        except ConnectError as error:
            for check in CapabilityCheck:
                unknown = CapabilityCheckResult(outcome=CheckOutcome.UNKNOWN, detail=str(error))
                self.answers.setdefault(check, unknown)

    def _try_all(self) -> None:
        first = self._take()
        if first is None:
            self._try_unfenced()
            return
        if not self._write(first):
            return
        second = self._take()
        if second is None:
            return
        late = self._send(first, 1)
        self._note(
            CapabilityCheck.FENCE,
            f"epoch {first.epoch} of producer {first.id} is answered {_describe_answer(late)} "
            "after epoch "
            f"{second.epoch} of {second.id} wrote",
            holds=isinstance(late, BrokerRefusal) and late.code in {INVALID_EPOCH, PRODUCER_FENCED},
        )
        own = self._send(second, 0)
        self._note(
            CapabilityCheck.SUCCESSOR,
            f"answered {_describe_answer(own)}",
            holds=not isinstance(own, BrokerRefusal),
        )

    def _try_unfenced(self) -> None:
        """What is left without a fence: numbered batches of a producer of one's own."""
        owner = _raise_if_transient(self._scratch.new_plain_owner())
        if isinstance(owner, BrokerRefusal):
            self._note_refusal(CapabilityCheck.OFFSET, owner)
        else:
            self._write(owner)

    def _take(self) -> ProducerIdAndEpoch | None:
        """A new owner whose marker was read; None: that is as far as it goes."""
        owner = _raise_if_transient(self._scratch.new_owner())
        if isinstance(owner, BrokerRefusal):
            self._note_refusal(CapabilityCheck.TRANSACTIONAL_ID, owner)
            return None
        refused = _raise_if_transient(self._scratch.commit_empty(owner))
        if refused is not None:
            self._note_refusal(CapabilityCheck.TRANSACTIONAL_ID, refused)
            return None
        self._note(CapabilityCheck.TRANSACTIONAL_ID, holds=True)
        seen = self._scratch.marker_seen(owner)
        self._note(CapabilityCheck.MARKER, "it did not become readable in time", holds=seen)
        return owner if seen else None

    def _write(self, owner: ProducerIdAndEpoch) -> bool:
        expected = self._scratch.end()
        sent = self._send(owner, 0)
        if isinstance(sent, BrokerRefusal):
            self._note_refusal(CapabilityCheck.OFFSET, sent)
            return False
        self._note(
            CapabilityCheck.OFFSET, f"{sent} where {expected} was next", holds=sent == expected
        )
        self._note(
            CapabilityCheck.UNCHANGED,
            "other bytes are read",
            holds=self._scratch.unchanged(expected),
        )
        again = self._send(owner, 0)
        stored_twice = self._scratch.end() != expected + 1
        refused = isinstance(again, BrokerRefusal) and again.code != DUPLICATE_SEQUENCE
        self._note(
            CapabilityCheck.DUPLICATE,
            "it is stored again" if stored_twice else f"answered {_describe_answer(again)}",
            holds=not stored_twice and not refused,
        )
        gap = self._send(owner, SEQUENCE_GAP)
        self._note(
            CapabilityCheck.SEQUENCE,
            f"answered {_describe_answer(gap)}",
            holds=isinstance(gap, BrokerRefusal) and gap.code == OUT_OF_ORDER,
        )
        return True

    def _send(self, owner: ProducerIdAndEpoch, sequence: int) -> int | BrokerRefusal:
        return _raise_if_transient(self._scratch.send(owner, sequence))

    def _note(self, check: CapabilityCheck, otherwise: str = "", *, holds: bool) -> None:
        """What failed once stays failed."""
        if holds:
            self.answers.setdefault(check, capabilities.CHECK_HOLDS)
        else:
            self.answers[check] = CapabilityCheckResult(
                outcome=CheckOutcome.FAILS, detail=otherwise
            )

    def _note_refusal(self, check: CapabilityCheck, refused: BrokerRefusal) -> None:
        outcome = CheckOutcome.FAILS
        if refused.code == TRANSACTIONAL_ID_DENIED:
            outcome = CheckOutcome.DENIED
        elif refused.code in SCRATCH_TOPIC_DENIED:
            outcome = CheckOutcome.UNKNOWN
        self.answers[check] = CapabilityCheckResult(outcome=outcome, detail=str(refused))


def _raise_if_transient(answer: _ProbeAnswer) -> _ProbeAnswer:
    """Raises `RetriableError` for a refusal that may be another one the next time."""
    if isinstance(answer, BrokerRefusal) and answer.code in TRANSIENT_ERROR_CODES:
        raise RetriableError(f"the broker answered {answer}: probe again when that is over")
    return answer


def _describe_answer(answer: int | BrokerRefusal) -> str:
    return str(answer) if isinstance(answer, BrokerRefusal) else f"offset {answer}"


_TOPIC_SUFFIX_BITS = 32


class ClusterProbe:
    """Probes over connections of its own; `settings` say how to reach the cluster."""

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

    def source(self, topic: str | None = None) -> ClusterCapabilities:
        """What a source speaks; `topic` is any of its topics, to see whether topics have ids.

        Raises `ConnectError` when it does not answer, or refuses us.
        """
        with self._questions() as questions:
            spoken = _probe_api_versions(questions, ClusterRole.SOURCE)
            ids = None if topic is None else _has_topic_id(questions, topic)
            return ClusterCapabilities(alias=self._alias, spoken=spoken, topic_ids=ids)

    def target(self, topic: str, *, transactional_prefix: str) -> ClusterCapabilities:
        """What a target speaks and does, tried on partition 0 of `topic`, which is our own.

        Raises `ConnectError` when it does not answer, or refuses us.
        """
        with self._questions() as questions:
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
                spoken=spoken,
                topic_ids=_has_topic_id(questions, topic),
                checks=probe.answers,
            )

    def untried(self, error: ConnectError) -> ClusterCapabilities:
        """A target on which there is no topic of our own, because of `error`."""
        with self._questions() as questions:
            unknown = CapabilityCheckResult(outcome=CheckOutcome.UNKNOWN, detail=str(error))
            return ClusterCapabilities(
                alias=self._alias,
                spoken=_probe_api_versions(questions, ClusterRole.TARGET),
                checks=dict.fromkeys(CapabilityCheck, unknown),
            )

    def _questions(self) -> BlockingClient:
        return BlockingClient(self._settings, clock=self._clock, random=self._random)


def _probe_api_versions(questions: BlockingClient, side: ClusterRole) -> dict[str, int | None]:
    node_id = questions.any_node()
    return {
        api.name: questions.spoken(node_id, api.key, (api.low, api.high))
        for api in capabilities.REQUIRED_APIS[side]
    }


def _has_topic_id(questions: BlockingClient, topic: str) -> bool | None:
    try:
        questions.leader(topic)
    except ConnectError:
        return None
    return questions.topic_id(topic) != varints.NO_TOPIC_ID
