"""Fences all writers of a flow, in rounds, until no partition is acquired any more.

A partition is fenced by a new epoch and an empty transaction under its own transactional id; the
marker is read back. A writer that still believes it owns the partition, such as a frozen or
disconnected process, cannot write after the marker. Records between the end of the offset map and
the marker are counted: the last batches of an owner that died before it recorded them. Partitions
that do not answer do not delay others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka.client_errors import TopicMissingError
from connect_runtime.protocol import request_builders, request_errors
from connect_runtime.protocol.request_builders import AnyNodeTarget
from connect_runtime.protocol.request_errors import UnsupportedVersion
from mm2.clusters import fencing_results, log_end_offsets
from mm2.clusters.fencing_results import FencingResult
from mm2.clusters.flow_pair import FlowClusters
from mm2.clusters.log_end_offsets import NoLeaderError, PartitionLeaders
from mm2.copier.blocking_client import BlockingClient, BrokerResponseError
from mm2.copier.partition_fencer import BrokerRefusal, PartitionFencer
from mm2.failover import divergence, move_context, plan_findings
from mm2.failover.divergence import Provenance
from mm2.failover.move_context import MoveContext
from mm2.failover.partition_thread_pool import BoundedPool, ConnectClient
from mm2.offsets.offset_map import OffsetMap, PartitionMap
from mm2.replication import producer_fencing
from mm2.topics.flow_config import Flow

TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
_MISSING_RIGHTS = {
    29: "DESCRIBE, READ and WRITE on the topic",
    31: "IDEMPOTENT_WRITE on the cluster",
}
"""What TOPIC_ and CLUSTER_AUTHORIZATION_FAILED say is missing."""
_CONTESTED_CODES = producer_fencing.FENCED_CODES | {producer_fencing.INVALID_TXN_STATE}
LEADER_TIMEOUT_S = 5.0
"""So long a broker is asked where its partitions end before they are fenced."""


class FencingRefusedError(RetriableError):
    """The target answers, and does not let the partition be fenced."""


class FencingContestedError(FencingRefusedError):
    """Somebody else took the partition while it was fenced."""


class PartlyFencedError(RetriableError):
    """Time was up before all partitions were fenced."""

    def __init__(
        self,
        said: str,
        fenced: Collection[FencingResult],
        *,
        silent: Mapping[TopicPartition, str] | None = None,
        refused: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """`find_unanswered_partitions`: those that did not answer, and what failed; `refused`:
        those that did, and what they said. Others were not begun."""
        super().__init__(said)
        self.fenced = fenced
        self.silent = silent or {}
        self.refused = refused or {}


def fence_partitions(
    flow: Flow,
    known: OffsetMap,
    partitions: Sequence[TopicPartition],
    *,
    crew: BoundedPool,
    timeout_s: float,
) -> list[FencingResult]:
    """In this order. Raises `PartlyFencedError` where some of the target does not answer in time,
    and `FatalError` where a right is missing; doing it again does no harm."""

    def work(
        questions: BlockingClient,
        each: TopicPartition,
        end: Deadline,
    ) -> FencingResult:
        place = PartitionFencer(
            questions,
            TopicPartition(flow.remote_topic(each.topic), each.partition),
            transactional_id=flow.transactional_id(each),
            clock=crew.clock,
        )
        try:
            return _fence_partition(each, known.partition(each), place, clock=crew.clock, end=end)
        except FencingRefusedError:
            answered.add(each)
            raise

    answered: set[TopicPartition] = set()
    found = crew.run(work, partitions, timeout_s=timeout_s)
    fenced = [found.done[each] for each in sorted(found.done)]
    if found.left:
        failed = {each: why for each, why in found.left.items() if why}
        raise PartlyFencedError(
            f"fencing for {timeout_s:g} s: {found}",
            fenced,
            silent={each: why for each, why in failed.items() if each not in answered},
            refused={each: why for each, why in failed.items() if each in answered},
        )
    return fenced


def find_partitions_to_fence(
    both: FlowClusters, known: OffsetMap, *, timeout_s: float
) -> dict[TopicPartition, int | ConnectError]:
    """All that anybody ever copied, as long as its mirror exists: that one does not answer for it
    now does not lock its writers out. By partition the broker that leads its mirror, or why that
    is not told. Raises `RetriableError`."""
    mirrors = _map_to_mirrors(both.flow, fencing_results.list_replicated_partitions(known))
    names = {each.topic for each in mirrors.values()}
    topics = both.target.admin.describe_topics(names, timeout_s)
    led = log_end_offsets.find_leaders(mirrors.values(), topics)
    return {
        each: led[mirror]
        for each, mirror in mirrors.items()
        if not isinstance(led[mirror], TopicMissingError)
    }


def find_unanswered_partitions(
    both: FlowClusters, led: PartitionLeaders, *, clock: Clock
) -> dict[TopicPartition, str]:
    """Of these, those whose mirror's leader does not answer for it, and why: who hangs is waited
    for once, and not by each that copies. `led` as `find_partitions_to_fence` tells."""
    names = _map_to_mirrors(both.flow, led)
    patience_s = LEADER_TIMEOUT_S * len(
        {leader for leader in led.values() if isinstance(leader, int)}
    )
    end = Deadline.after(patience_s, now_s=clock.now_s())
    asked = {names[each]: leader for each, leader in led.items()}
    failed = log_end_offsets.fetch_log_ends(both.target, asked, end=end, clock=clock).failed
    return {
        each: str(failed[name])
        for each, name in names.items()
        if isinstance(failed.get(name), RetriableError)
    }


def _map_to_mirrors(
    flow: Flow, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, TopicPartition]:
    return {
        each: TopicPartition(flow.remote_topic(each.topic), each.partition) for each in partitions
    }


def _fence_partition(
    partition: TopicPartition,
    known: PartitionMap,
    place: PartitionFencer,
    *,
    clock: Clock,
    end: Deadline,
) -> FencingResult:
    mirror = place.partition
    try:
        locked = place.lock_out()
    except BrokerResponseError as error:
        if error.error_code in _MISSING_RIGHTS:
            raise _build_refusal(mirror, error.error_code) from error
        raise
    if isinstance(locked, BrokerRefusal):
        if locked.code == TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return fencing_results.build_unfenced_result(partition, known)
        raise _build_refusal(mirror, locked.code)
    if locked is None:
        raise RetriableError(f"fencing {mirror}: our marker did not become readable")
    return fencing_results.build_fencing_result(
        partition,
        known,
        producer_id=locked.owner.id,
        epoch=locked.owner.epoch,
        marker=locked.marker,
        tail=_count_tail(place, known, locked.marker, clock=clock, end=end),
    )


def _build_refusal(mirror: TopicPartition, code: int) -> ConnectError:
    said = f"fencing {mirror}: {request_errors.format_error_code(code)}"
    if (right := _MISSING_RIGHTS.get(code)) is not None:
        return FatalError(f"{said}; the flow's principal needs {right} there")
    if code in _CONTESTED_CODES:
        return FencingContestedError(f"{said}; somebody else seems to copy it")
    return FencingRefusedError(f"{said}; look at the broker's log")


def _count_tail(
    place: PartitionFencer,
    known: PartitionMap,
    marker: int,
    *,
    clock: Clock,
    end: Deadline,
) -> int | None:
    anchor = known.anchor
    if anchor is None:
        return 0
    start = anchor.segment.target_next
    found = Provenance(ours=known.producers, start=start, end=marker, keeps_others=False)
    return found.mine if divergence.scan_log(place, found, clock=clock, end=end) else None


def find_denied_ids(connect: ConnectClient, names: Sequence[str]) -> list[str]:
    """The transactional ids that we have no right to, by whether we are told of their coordinators:
    asked, and nobody is fenced by it. Brokers before 3.0 tell of one at a time, and are asked for
    the first alone. Raises `ConnectError`."""
    if not names:
        return []
    with connect() as questions:
        try:
            message = request_builders.find_coordinators(
                request_builders.TRANSACTION_COORDINATOR, names
            )
            found = questions.ask(AnyNodeTarget(), message).coordinators
        except UnsupportedVersion:
            message = request_builders.find_coordinator(
                request_builders.TRANSACTION_COORDINATOR, names[0]
            )
            answer = questions.ask(AnyNodeTarget(), message)
            return [names[0]] * (int(answer.error_code) == TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return [
        str(each.key)
        for each in found
        if int(each.error_code) == TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    ]


UNREACHABLE_TIMEOUT_S = 30.0
"""Who has not answered for so long is as good as dead to who accepted that. A broker that died has
lost what it led by then (broker.session.timeout.ms is 9 s, with ZooKeeper 18 s), and another leads
it where there is one; of one that hangs and leads on nothing better is to come."""
MAX_NAMES = 10
_NOT_ATTEMPTED = "time was up before it was tried"


class FencingRounds:
    """`found` are fenced, or left as they are; `late` those that the last turn asked about, and
    that were neither."""

    def __init__(self, about: MoveContext, *, leaves: bool) -> None:
        """`leaves`: what does not answer is left unfenced after `UNREACHABLE_TIMEOUT_S`, and at
        once where no broker leads it; else it is waited for."""
        self._about = about
        self._leaves = leaves
        self.found: dict[TopicPartition, FencingResult] = {}
        self.late: set[TopicPartition] = set()
        self._since_s: dict[TopicPartition, float] = {}
        """Those that have not answered since they were asked at that time."""
        self._silent: dict[TopicPartition, str] = {}
        """Those whose leader did not answer in the last turn, and why."""
        self._failed: dict[TopicPartition, str] = {}
        """Those that did not answer when they were fenced last, and what failed."""
        self._refused: dict[TopicPartition, str] = {}
        """Those that did when they were asked last, and what they said instead."""
        self._taken: set[TopicPartition] = set()

    def turn(self) -> bool:
        """Are all locked out? Raises `RetriableError`, and `FatalError` where a right is
        missing."""
        self.late = set()
        about = self._about
        about.stop()
        known = about.known()
        led = list_partitions_to_fence(about, known)
        late = {each for each in led if each in self._taken or each not in self.found}
        self._ask({each: led[each] for each in late})
        self.late = late
        if self._leaves:
            self._leave({each for each in late if self._is_gone(each, led[each])}, known)
        self._fence(self.late - self._silent.keys(), known)
        if self.late:
            raise RetriableError(self._why_late())
        about.pause(move_context.POLL_INTERVAL_S)
        known = about.known()
        found = self.found
        self._taken = {
            each for each in found if fencing_results.is_acquired_since(known, found[each])
        }
        self._taken.update(list_partitions_to_fence(about, known).keys() - found.keys())
        return not self._taken

    def leave_late(self) -> None:
        """Those that have not answered up to the end. Raises `RetriableError` where some did, and
        are not fenced all the same: that is not what was accepted."""
        about, refused = self._about, sorted(self.late & self._refused.keys())
        if refused:
            more = len(refused) - MAX_NAMES
            names = ", ".join(map(str, refused[:MAX_NAMES])) + f" and {more} more" * (more > 0)
            raise RetriableError(
                f"after {about.wait_s:g} s not fenced, though they are answered for: {names} "
                f"({self._refused[refused[0]]}). Only what nobody answers for is left unfenced"
            )
        self._leave(set(self.late), about.known())

    def why(self) -> str:
        return f"somebody copies {min(self._taken)} still, though the flow is stopped"

    def _leave(self, partitions: Collection[TopicPartition], known: OffsetMap) -> None:
        """Nobody is locked out of these."""
        why = {**dict.fromkeys(partitions, _NOT_ATTEMPTED), **self._failed, **self._silent}
        self._have(
            [
                fencing_results.build_unfenced_result(
                    each, known.partition(each), fencing_results.explain_unanswered(why[each])
                )
                for each in partitions
            ]
        )

    def _ask(self, led: PartitionLeaders) -> None:
        about = self._about
        self._silent = find_unanswered_partitions(about.both, led, clock=about.clock)
        for each in self._silent:
            self._refused.pop(each, None)
        now_s, before = about.clock.now_s(), self._since_s
        self._since_s = {each: before.get(each, now_s) for each in (*self._failed, *self._silent)}

    def _is_gone(self, partition: TopicPartition, leader: int | ConnectError) -> bool:
        if isinstance(leader, NoLeaderError):
            return True
        return partition in self._since_s and self._left_s(partition) <= 0

    def _left_s(self, partition: TopicPartition) -> float:
        """Until it is left, where that is accepted."""
        return self._since_s[partition] + UNREACHABLE_TIMEOUT_S - self._about.clock.now_s()

    def _fence(self, partitions: Collection[TopicPartition], known: OffsetMap) -> None:
        """Those first that have not failed yet."""
        due = sorted(partitions, key=lambda each: (each in self._failed, each))
        try:
            fenced = self._about.fence(known, due)
        except PartlyFencedError as error:
            self._have(error.fenced)
            for each in (*error.silent, *error.refused):
                self._failed.pop(each, None)
                self._refused.pop(each, None)
            self._failed.update(error.silent)
            self._refused.update(error.refused)
            way_on = self._way_on if error.silent else ""
            raise RetriableError(f"{error}{way_on}") from error
        self._have(fenced)

    def _have(self, fenced: Collection[FencingResult]) -> None:
        done = [each.partition for each in fenced]
        self.found.update(zip(done, fenced, strict=True))
        self.late.difference_update(done)
        self._taken.difference_update(done)
        for each in done:
            self._failed.pop(each, None)
            self._refused.pop(each, None)

    def _why_late(self) -> str:
        first = min(self.late)
        more = f" and {len(self.late) - 1} more" if len(self.late) > 1 else ""
        said = f"nobody answers for the mirror of {first}{more} ({self._silent[first]})"
        if not self._leaves:
            return said + self._way_on
        left_s = max(0.0, max(map(self._left_s, self.late)))
        return f"{said}; who has not within {left_s:.0f} s is left unfenced, as was accepted"

    @property
    def _way_on(self) -> str:
        if self._leaves:
            return ""
        return f". To leave it to who may still copy it: --accept {plan_findings.MIRROR_UNKNOWN}"


def list_partitions_to_fence(
    about: MoveContext, known: OffsetMap
) -> Mapping[TopicPartition, int | ConnectError]:
    """See `find_partitions_to_fence`."""
    return find_partitions_to_fence(about.both, known, timeout_s=about.planner.timeout_s)
