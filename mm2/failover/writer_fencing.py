"""Fences all writers of a flow, and repeats this until no partition is acquired any more.

A partition is fenced by bumping the producer epoch and committing an empty transaction under the
partition's transactional id. The commit marker is then read from the partition's log to confirm the
fencing. A writer that still believes it owns the partition, such as a frozen or disconnected
process, cannot write after the marker. Records between the end of the offset map and the marker are
counted: they are the last batches of an owner that crashed before it stored them in the map.
Partitions that do not respond do not delay others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from connect_runtime.protocol import request_builders, request_errors
from connect_runtime.protocol.request_builders import AnyNodeTarget
from connect_runtime.protocol.request_errors import UnsupportedVersion
from mm2.clusters import fencing_results, log_end_offsets
from mm2.clusters.fencing_results import FencingResult
from mm2.clusters.flow_cluster_pair import FlowClusters
from mm2.clusters.log_end_offsets import NoLeaderError, PartitionLeaders
from mm2.copier.blocking_client import BlockingClient, BrokerResponseError
from mm2.copier.partition_fencer import BrokerRefusal, PartitionFencer
from mm2.failover import failover_context, foreign_record_scan, plan_findings
from mm2.failover.failover_context import FailoverContext
from mm2.failover.foreign_record_scan import ForeignRecordScan
from mm2.failover.partition_thread_pool import ConnectClient, PartitionThreadPool
from mm2.offsets.offset_map import OffsetMap, PartitionMap
from mm2.replication import producer_fencing, transactional_ids
from mm2.topics.flow_config import Flow

TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
_MISSING_RIGHTS = {
    29: "DESCRIBE, READ and WRITE on the topic",
    31: "IDEMPOTENT_WRITE on the cluster",
}
"""Missing authorizations by error code: TOPIC_AUTHORIZATION_FAILED and
CLUSTER_AUTHORIZATION_FAILED."""
_CONTESTED_CODES = producer_fencing.FENCED_CODES | {producer_fencing.INVALID_TXN_STATE}
LEADER_TIMEOUT_S = 5.0
"""How long each broker may take to return the end offsets of its partitions before they are
fenced."""


class FencingRefusedError(RetriableError):
    """Raised if the target responded but refused to fence the partition."""


class FencingContestedError(FencingRefusedError):
    """Raised if another process acquired the partition while it was being fenced."""


class PartiallyFencedError(RetriableError):
    """Raised if the timeout expired before all partitions were fenced."""

    def __init__(
        self,
        said: str,
        fenced: Collection[FencingResult],
        *,
        silent: Mapping[TopicPartition, str] | None = None,
        refused: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """Create the error. `silent` contains the partitions that did not respond and `refused` the
        partitions for which the target returned an error, each with the error. All other partitions
        that are not in `fenced` were not attempted."""
        super().__init__(said)
        self.fenced = fenced
        self.unanswered = silent or {}
        self.refused = refused or {}


def fence_partitions(
    flow: Flow,
    offset_map: OffsetMap,
    partitions: Sequence[TopicPartition],
    *,
    pool: PartitionThreadPool,
    timeout_s: float,
) -> list[FencingResult]:
    """Fence partitions in the given order. Idempotent.

    Raises `PartiallyFencedError` if some partitions do not respond in time, and `FatalError` if an
    authorization is missing.
    """

    def fence_one_partition(
        questions: BlockingClient,
        each: TopicPartition,
        end: Deadline,
    ) -> FencingResult:
        place = PartitionFencer(
            questions,
            TopicPartition(flow.format_remote_topic(each.topic), each.partition),
            transactional_id=transactional_ids.format_transactional_id(flow.name, each),
            clock=pool.clock,
        )
        try:
            return _fence_partition(
                each, offset_map.get_partition(each), place, clock=pool.clock, end=end
            )
        except FencingRefusedError:
            answered.add(each)
            raise

    answered: set[TopicPartition] = set()
    found = pool.process_items(fence_one_partition, partitions, timeout_s=timeout_s)
    fenced = [found.done[each] for each in sorted(found.done)]
    if found.unfinished:
        failed = {each: why for each, why in found.unfinished.items() if why}
        raise PartiallyFencedError(
            f"fencing not finished after {timeout_s:g} s: {found}",
            fenced,
            silent={each: why for each, why in failed.items() if each not in answered},
            refused={each: why for each, why in failed.items() if each in answered},
        )
    return fenced


def find_partitions_to_fence(
    both: FlowClusters, known: OffsetMap, *, timeout_s: float
) -> dict[TopicPartition, int | ConnectError]:
    """Find all partitions that were ever replicated and whose mirror partition exists, even if its
    leader does not respond.

    Returns a dict from source partition to the broker id of the mirror partition's leader, or to
    the error if the leader is unknown. Raises `RetriableError` if the target does not respond.
    """
    mirrors = _map_to_mirror_partitions(
        both.flow, fencing_results.list_replicated_partitions(known)
    )
    names = {each.topic for each in mirrors.values()}
    topics = both.target.admin.describe_topics(names, timeout_s)
    led = log_end_offsets.find_leaders(mirrors.values(), topics)
    return {
        each: led[mirror]
        for each, mirror in mirrors.items()
        if not isinstance(led[mirror], TopicMissingError)
    }


def find_unresponsive_partitions(
    both: FlowClusters, leaders: PartitionLeaders, *, clock: Clock
) -> dict[TopicPartition, str]:
    """Find the partitions whose leader does not respond, with the reason. `leaders` is the result
    of `find_partitions_to_fence`.

    All leaders are queried before fencing, so that an unresponsive broker delays fencing once and
    not once per partition.
    """
    names = _map_to_mirror_partitions(both.flow, leaders)
    patience_s = LEADER_TIMEOUT_S * len(
        {leader for leader in leaders.values() if isinstance(leader, int)}
    )
    end = Deadline.after(patience_s, now_s=clock.now_s())
    asked = {names[each]: leader for each, leader in leaders.items()}
    failed = log_end_offsets.fetch_log_ends(both.target, asked, end=end, clock=clock).failed
    return {
        each: str(failed[name])
        for each, name in names.items()
        if isinstance(failed.get(name), RetriableError)
    }


def _map_to_mirror_partitions(
    flow: Flow, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, TopicPartition]:
    return {
        each: TopicPartition(flow.format_remote_topic(each.topic), each.partition)
        for each in partitions
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
        locked = place.fence_partition()
    except BrokerResponseError as error:
        if error.error_code in _MISSING_RIGHTS:
            raise _translate_fencing_error(mirror, error.error_code) from error
        raise
    if isinstance(locked, BrokerRefusal):
        if locked.code == TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return fencing_results.build_unfenced_result(partition, known)
        raise _translate_fencing_error(mirror, locked.code)
    if locked is None:
        raise RetriableError(f"fencing {mirror}: the marker did not become readable")
    return fencing_results.build_fencing_result(
        partition,
        known,
        producer_id=locked.producer.id,
        epoch=locked.producer.epoch,
        marker=locked.marker_offset,
        tail=_count_tail_records(place, known, locked.marker_offset, clock=clock, end=end),
    )


def _translate_fencing_error(mirror: TopicPartition, code: int) -> ConnectError:
    said = f"fencing {mirror}: {request_errors.format_error_code(code)}"
    if (right := _MISSING_RIGHTS.get(code)) is not None:
        return FatalError(f"{said}; the flow's principal needs {right} on the target")
    if code in _CONTESTED_CODES:
        return FencingContestedError(f"{said}; another process seems to replicate it")
    return FencingRefusedError(f"{said}; see the broker's log")


def _count_tail_records(
    place: PartitionFencer,
    known: PartitionMap,
    marker: int,
    *,
    clock: Clock,
    end: Deadline,
) -> int | None:
    anchor = known.resume_point
    if anchor is None:
        return 0
    start = anchor.segment.target_next
    found = ForeignRecordScan(
        flow_producers=known.producers, start=start, end=marker, collects_foreign=False
    )
    return (
        found.flow_records
        if foreign_record_scan.scan_log(place, found, clock=clock, end=end)
        else None
    )


def find_denied_transactional_ids(connect: ConnectClient, names: Sequence[str]) -> list[str]:
    """Find the transactional ids that mm2 is not authorized to use, by looking up their
    coordinators. This does not fence any producer.

    On brokers before 3.0, which look up one id per request, only the first id is checked. Raises
    `ConnectError` if the target does not respond.
    """
    if not names:
        return []
    with connect() as questions:
        try:
            message = request_builders.build_find_coordinators_request(
                request_builders.TRANSACTION_COORDINATOR, names
            )
            found = questions.send_request(AnyNodeTarget(), message).coordinators
        except UnsupportedVersion:
            message = request_builders.build_find_coordinator_request(
                request_builders.TRANSACTION_COORDINATOR, names[0]
            )
            answer = questions.send_request(AnyNodeTarget(), message)
            return [names[0]] * (int(answer.error_code) == TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return [
        str(each.key)
        for each in found
        if int(each.error_code) == TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    ]


UNREACHABLE_TIMEOUT_S = 30.0
"""Time after which a partition that does not respond is left unfenced, if the operator accepted
this. By then a crashed broker has lost its leadership (broker.session.timeout.ms is 9 s, with
ZooKeeper 18 s), and another broker leads the partition if it has another replica."""
MAX_NAMES = 10
_NOT_ATTEMPTED = "the timeout expired before fencing was attempted"


class FencingRounds:
    """Fences a flow's partitions in rounds. Each round fences the partitions that were acquired
    since the previous round."""

    def __init__(self, about: FailoverContext, *, leaves: bool) -> None:
        """Create the fencing rounds. If `leaves` is true, a partition is left unfenced if its
        leader does not respond for `UNREACHABLE_TIMEOUT_S`, or immediately if it has no leader. If
        `leaves` is false, fencing waits for these partitions."""
        self._context = about
        self._may_leave = leaves
        self.results: dict[TopicPartition, FencingResult] = {}
        """Fencing results of the partitions that are fenced or left unfenced."""
        self.unfinished: set[TopicPartition] = set()
        """Partitions of the last round that were neither fenced nor left unfenced, so that fencing
        them must be retried."""
        self._unanswered_since_s: dict[TopicPartition, float] = {}
        """Time at which each unresponsive partition was first queried."""
        self._unanswered: dict[TopicPartition, str] = {}
        """Partitions whose leader did not respond in the last round, with the reason."""
        self._failed: dict[TopicPartition, str] = {}
        """Partitions that did not respond when they were last fenced, with the error."""
        self._refused: dict[TopicPartition, str] = {}
        """Partitions that returned an error when they were last fenced."""
        self._acquired: set[TopicPartition] = set()

    def run_round(self) -> bool:
        """Execute one fencing round. Return True if all partitions are fenced and none was acquired
        after it was fenced.

        Raises `RetriableError`, and `FatalError` if an authorization is missing.
        """
        self.unfinished = set()
        about = self._context
        about.stop_connectors()
        known = about.read_offset_map()
        led = list_partitions_to_fence(about, known)
        late = {each for each in led if each in self._acquired or each not in self.results}
        self._query_leaders({each: led[each] for each in late})
        self.unfinished = late
        if self._may_leave:
            self._leave_partitions_unfenced(
                {each for each in late if self._is_left_unfenced(each, led[each])}, known
            )
        self._fence_partitions(self.unfinished - self._unanswered.keys(), known)
        if self.unfinished:
            raise RetriableError(self._describe_unresponsive_partitions())
        about.sleep(failover_context.POLL_INTERVAL_S)
        known = about.read_offset_map()
        found = self.results
        self._acquired = {
            each
            for each in found
            if fencing_results.is_partition_acquired_after_fencing(known, found[each])
        }
        self._acquired.update(list_partitions_to_fence(about, known).keys() - found.keys())
        return not self._acquired

    def record_unresponsive_partitions(self) -> None:
        """Record the partitions that never responded as left unfenced.

        Raises `RetriableError` if some partitions responded but could not be fenced: the operator
        has only accepted that unresponsive partitions are left unfenced.
        """
        about, refused = self._context, sorted(self.unfinished & self._refused.keys())
        if refused:
            more = len(refused) - MAX_NAMES
            names = ", ".join(map(str, refused[:MAX_NAMES])) + f" and {more} more" * (more > 0)
            raise RetriableError(
                f"not fenced after {about.wait_s:g} s, although their leader responds: {names} "
                f"({self._refused[refused[0]]}). Only partitions whose leader does not respond "
                "are left unfenced"
            )
        self._leave_partitions_unfenced(set(self.unfinished), about.read_offset_map())

    def explain_next_round(self) -> str:
        """Describe why another fencing round is needed."""
        return f"another process still replicates {min(self._acquired)}, though the flow is stopped"

    def _leave_partitions_unfenced(
        self, partitions: Collection[TopicPartition], known: OffsetMap
    ) -> None:
        """Record the given partitions as left unfenced, each with the reason."""
        why = {**dict.fromkeys(partitions, _NOT_ATTEMPTED), **self._failed, **self._unanswered}
        self._record_results(
            [
                fencing_results.build_unfenced_result(
                    each,
                    known.get_partition(each),
                    fencing_results.format_reason_for_accepted_unfenced_mirror(why[each]),
                )
                for each in partitions
            ]
        )

    def _query_leaders(self, led: PartitionLeaders) -> None:
        about = self._context
        self._unanswered = find_unresponsive_partitions(about.clusters, led, clock=about.clock)
        for each in self._unanswered:
            self._refused.pop(each, None)
        now_s, before = about.clock.now_s(), self._unanswered_since_s
        self._unanswered_since_s = {
            each: before.get(each, now_s) for each in (*self._failed, *self._unanswered)
        }

    def _is_left_unfenced(self, partition: TopicPartition, leader: int | ConnectError) -> bool:
        if isinstance(leader, NoLeaderError):
            return True
        return (
            partition in self._unanswered_since_s
            and self._compute_time_until_left_unfenced_s(partition) <= 0
        )

    def _compute_time_until_left_unfenced_s(self, partition: TopicPartition) -> float:
        """Return the time in seconds until the partition is left unfenced, if the operator accepted
        this."""
        return (
            self._unanswered_since_s[partition]
            + UNREACHABLE_TIMEOUT_S
            - self._context.clock.now_s()
        )

    def _fence_partitions(self, partitions: Collection[TopicPartition], known: OffsetMap) -> None:
        """Fence the given partitions, starting with those that have not failed before."""
        due = sorted(partitions, key=lambda each: (each in self._failed, each))
        try:
            fenced = self._context.fence_partitions(known, due)
        except PartiallyFencedError as error:
            self._record_results(error.fenced)
            for each in (*error.unanswered, *error.refused):
                self._failed.pop(each, None)
                self._refused.pop(each, None)
            self._failed.update(error.unanswered)
            self._refused.update(error.refused)
            way_on = self._format_acceptance_hint if error.unanswered else ""
            raise RetriableError(f"{error}{way_on}") from error
        self._record_results(fenced)

    def _record_results(self, fenced: Collection[FencingResult]) -> None:
        done = [each.partition for each in fenced]
        self.results.update(zip(done, fenced, strict=True))
        self.unfinished.difference_update(done)
        self._acquired.difference_update(done)
        for each in done:
            self._failed.pop(each, None)
            self._refused.pop(each, None)

    def _describe_unresponsive_partitions(self) -> str:
        first = min(self.unfinished)
        more = f" and {len(self.unfinished) - 1} more" if len(self.unfinished) > 1 else ""
        said = f"the mirror of {first}{more} does not respond ({self._unanswered[first]})"
        if not self._may_leave:
            return said + self._format_acceptance_hint
        left_s = max(0.0, max(map(self._compute_time_until_left_unfenced_s, self.unfinished)))
        return f"{said}; left unfenced after {left_s:.0f} s more, as accepted"

    @property
    def _format_acceptance_hint(self) -> str:
        if self._may_leave:
            return ""
        return f". To leave it unfenced: --accept {plan_findings.MIRROR_UNKNOWN}"


def list_partitions_to_fence(
    context: FailoverContext, known: OffsetMap
) -> Mapping[TopicPartition, int | ConnectError]:
    """List the partitions to fence: call `find_partitions_to_fence` for the clusters and with the
    snapshot timeout of the failover."""
    return find_partitions_to_fence(context.clusters, known, timeout_s=context.planner.timeout_s)
