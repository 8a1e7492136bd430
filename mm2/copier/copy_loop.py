"""The copy loop: one thread and one selector for all partitions of a task.

It moves bytes and answers between sockets and the `PartitionReplicator` state machines and
decides nothing about them. One iteration: wait for events, handle them, run what is due, send.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from connect_runtime.base.errors import FatalError
from connect_runtime.base.timing import Clock
from connect_runtime.network.cluster_connections import ClusterConnections
from connect_runtime.network.transport import Poller
from mm2.copier import client_properties, control_messages, leader_availability, recovery_requests
from mm2.copier.control_messages import ConfigureCopy, PartitionGauge
from mm2.copier.driver_client import DriverAnswerHandler, DriverClient
from mm2.copier.fetcher import Fetcher
from mm2.copier.leader_availability import LeaderMonitor, UnavailableLeader
from mm2.copier.producer import BatchProducer
from mm2.copier.recovery_requests import RecoveryRequests
from mm2.reachability import ClusterSide, UnreachableCluster
from mm2.replication import error_policy, latency, throttle
from mm2.replication.batch_limits import BatchMergeLimits
from mm2.replication.latency import LatencyHistogram
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.partition_replicator import PartitionReplicator
from mm2.replication.partition_state import PartitionPhase
from mm2.replication.record_transforms import TransformChain
from mm2.replication.recovery_instructions import (
    AppendToFlowLog,
    Instruction,
    InstructionAnswer,
    RefreshTargetMetadata,
)

TICK_INTERVAL_S = 0.02
GAUGES_INTERVAL_S = 0.5
SWEEP_INTERVAL_S = 10.0
LEADER_CHECK_INTERVAL_S = 1.0
IDLE_POLL_S = 0.25
MAX_CONCURRENT_ACQUISITIONS = 256
"""Partitions that are fenced and paired at the same time."""


class CopyLoop:
    """Runs until it is told to stop and everything in flight is settled, or is abandoned.

    `fatal` is set when the copy cannot go on at all (a wrong password, say): the owner ends it.
    """

    def __init__(
        self,
        settings: ConfigureCopy,
        *,
        source: ClusterConnections,
        target: ClusterConnections,
        link: DriverClient,
        selector: Poller,
        now: Clock,
        random: Random,
        chain: TransformChain | None = None,
    ) -> None:
        self._clock = now
        self._poller = selector
        self._source, self._target = source, target
        self._aliases = settings.source.alias, settings.target.alias
        self._link = link
        self._held = MemoryBudget(settings.budget_bytes)
        self._joining = BatchMergeLimits()
        self._crossing = LatencyHistogram()
        self._questions = RecoveryRequests(
            source=source,
            target=target,
            link=link,
            answered=self._answered,
            now=now,
            granted=settings.granted,
        )
        self._source_side = Fetcher(
            source,
            held=self._held,
            carry=self._carry,
            arrived=self._arrived,
            now=now,
            throttles=throttle.create_limits(settings.throttle_bytes_s, settings.topic_throttles),
            limits=client_properties.read_fetch_limits(settings.source.properties),
            can_send=self._has_leader,
        )
        self._target_side = BatchProducer(
            target,
            carry=self._carry,
            now=now,
            settled=self._settled,
            may_send=lambda: not link.full,
        )
        self.copies = self._make_copies(settings, random, chain)
        source.want_topics({each.topic for each in settings.partitions})
        target.want_topics({each.remote_topic for each in settings.partitions})
        self._restless: dict[int, PartitionReplicator] = {id(each): each for each in self.copies}
        self._gauges: dict[int, PartitionGauge] = {}
        self._index = {id(each): index for index, each in enumerate(self.copies)}
        self._moved = set(self._index)
        self._behind = set(range(len(self.copies)))
        self._obstacles: dict[int, UnavailableLeader | None] = {}
        self._watched = tuple(
            _MonitoredCluster(
                side=side,
                alias=alias,
                connections=connections,
                watch=LeaderMonitor(connections, unreachable_after_s=settings.unreachable_after_s),
            )
            for side, alias, connections in zip(
                ClusterSide, self._aliases, (source, target), strict=True
            )
        )
        self._generations = (-1, -1)
        self._next_tick_s = self._next_gauges_s = self._next_sweep_s = self._next_leaders_s = 0.0
        self._waiting_since_s = 0.0
        self._closing = False

    def _make_copies(
        self, settings: ConfigureCopy, random: Random, chain: TransformChain | None
    ) -> list[PartitionReplicator]:
        made = [
            PartitionReplicator(
                where,
                owner=settings.owner,
                held=self._held,
                joining=self._joining,
                random=random,
                wall_ms=self._clock.wall_ms,
                transform=None if chain is None else chain.of(where),
                shared=self._crossing,
            )
            for where in settings.partitions
        ]
        for copy in made:
            self._source_side.add(copy)
        return made

    # One turn

    def run_once(self) -> None:
        """Wait for the network until something is due, then handle all that has come."""
        now_s = self._clock.now_s()
        wait_s = min(
            self._source.tick(now_s),
            self._target.tick(now_s),
            self._questions.next_wake_s() - now_s,
            (self._next_tick_s - now_s) if self._restless else IDLE_POLL_S,
            IDLE_POLL_S,
        )
        self._waiting_since_s = self._clock.now_s()
        self._poller.poll(max(0.0, wait_s), woken=self._woken)
        now_s = self._clock.now_s()
        self._watch_leaders(now_s)
        if now_s >= self._next_leaders_s:
            self._next_leaders_s = now_s + LEADER_CHECK_INTERVAL_S
            self._find_silent_leaders(now_s)
        if now_s >= self._next_tick_s:
            self._next_tick_s = now_s + TICK_INTERVAL_S
            self._tick(now_s)
        self._questions.flush(now_s)
        self._target_side.pump(now_s)
        self._source_side.pump(now_s)
        if now_s >= self._next_gauges_s:
            self._next_gauges_s = now_s + GAUGES_INTERVAL_S
            self.send_gauges()

    def _woken(self) -> None:
        now_s = self._clock.now_s()
        waited_s = now_s - self._waiting_since_s
        self._joining.waited(waited_s, now_s, slow_acks=self._target_side.slow_acks)

    def _tick(self, now_s: float) -> None:
        if now_s >= self._next_sweep_s:
            self._next_sweep_s = now_s + SWEEP_INTERVAL_S
            self._restless.update((id(each), each) for each in self.copies)
            self._look_at_source(now_s)
        if not self._restless:
            return
        taking = sum(copy.standing.phase is PartitionPhase.TAKING for copy in self.copies)
        for number, copy in list(self._restless.items()):
            waiting = copy.standing.phase in (PartitionPhase.WAITING, PartitionPhase.STOPPED)
            if waiting and taking >= MAX_CONCURRENT_ACQUISITIONS and not self._closing:
                continue
            found = copy.tick(now_s)
            taking += waiting and copy.standing.phase is PartitionPhase.TAKING
            if found:
                self._carry(copy, found)
            self._place(copy)
            self._restless.pop(number, None)
            if copy.restless:
                self._restless[number] = copy
            if self._clock.now_s() - now_s > recovery_requests.MAX_COMPUTE_TIME_S:
                break  # the others are first in the next turn

    def _watch_leaders(self, now_s: float) -> None:
        generations = (self._source.view.generation, self._target.view.generation)
        if generations == self._generations:
            return
        target_moved = generations[1] != self._generations[1]
        self._generations = generations
        self._source_side.place_all()
        self._look_at_source(now_s)
        if not target_moved:
            return
        for copy in self.copies:
            self._look_at_topic(copy, self._target, on_target=True, now_s=now_s)
            leader = self._target.view.leader(copy.where.remote_topic, copy.where.partition)
            self._source_side.place(copy)
            if leader is not None:
                self._carry(copy, copy.leader_epoch_seen(leader.epoch, now_s))
                self._target_side.offer(copy)

    def _has_leader(self, copy: PartitionReplicator) -> bool:
        """What cannot be sent anywhere is not fetched: it would only fill the budget."""
        where = copy.where
        return self._target.view.leader(where.remote_topic, where.partition) is not None

    def _find_silent_leaders(self, now_s: float) -> None:
        """Ask both clusters which leaders stopped answering, or answer again."""
        wall_ms = self._clock.wall_ms()
        changed = [each.check(self.copies, now_s, wall_ms) for each in self._watched]
        if any(changed):
            self._find_obstacles()

    def _find_obstacles(self) -> None:
        """Note for each partition whether both of its leaders are there and answer."""
        source, target = self._source.view, self._target.view
        for copy in self.copies:
            found = next(filter(None, (each.silence(copy) for each in self._watched)), None)
            found = found or leader_availability.find_missing_leader(
                copy.where, source=source, target=target
            )
            if found != self._obstacles.get(id(copy)):
                self._moved.add(id(copy))
                self._obstacles[id(copy)] = found

    def _look_at_source(self, now_s: float) -> None:
        """Has each partition a leader (on the target too), and is its topic there?"""
        self._find_obstacles()
        for copy in self.copies:
            self._look_at_topic(copy, self._source, on_target=False, now_s=now_s)

    def _look_at_topic(
        self,
        copy: PartitionReplicator,
        side: ClusterConnections,
        *,
        on_target: bool,
        now_s: float,
    ) -> None:
        name = copy.where.remote_topic if on_target else copy.where.topic
        seen = side.view.topic(name)
        if seen is None:
            return
        if seen.error_code:
            if seen.error_code == error_policy.UNKNOWN_TOPIC_OR_PARTITION and not on_target:
                self._carry(copy, copy.source_refused(seen.error_code, now_s))
            return
        found = copy.topic_seen(seen.topic_id, now_s, on_target=on_target)
        if found or copy.standing.phase is PartitionPhase.STOPPED:
            self._carry(copy, found)

    # Between the machines and the sides

    def _carry(self, copy: PartitionReplicator, found: Sequence[Instruction]) -> None:
        """Carry out what a partition's machine asked for."""
        now_s = self._clock.now_s()
        for instruction in found:
            match instruction:
                case RefreshTargetMetadata():
                    self._target.refresh_metadata()
                case AppendToFlowLog(items=items, token=token) if not copy.script.asks(instruction):
                    self._link.record(items, answered=self._on_stored(copy, token))
                case _:
                    self._questions.ask(copy, instruction, now_s)
        self._place(copy)

    def _answered(self, copy: PartitionReplicator, answer: InstructionAnswer) -> None:
        self._carry(copy, copy.script.answered(answer, self._clock.now_s()))

    def _on_stored(self, copy: PartitionReplicator, token: int) -> DriverAnswerHandler:
        return lambda _: self._stored(copy, token)

    def _stored(self, copy: PartitionReplicator, token: int) -> None:
        copy.recorded(token)
        self._place(copy)

    def _arrived(self, copy: PartitionReplicator) -> None:
        self._moved.add(id(copy))
        if copy.outbox.queued:
            self._target_side.offer(copy)
        if copy.restless:
            self._restless[id(copy)] = copy

    def _settled(self, copy: PartitionReplicator) -> None:
        self._moved.add(id(copy))
        self._source_side.room(copy)
        if copy.restless:
            self._restless[id(copy)] = copy

    def _place(self, copy: PartitionReplicator) -> None:
        self._moved.add(id(copy))
        self._source_side.place(copy)
        if copy.outbox.queued:
            self._target_side.offer(copy)
        if copy.restless:
            self._restless[id(copy)] = copy

    # What the worker says

    def pause(self, *, paused: bool, topics: Collection[str]) -> None:
        """Everything, or these topics only; what is not paused goes on."""
        for copy in self.copies:
            resting = paused or copy.where.topic in topics
            if resting != copy.paused:
                copy.paused = resting
                self._place(copy)
                self._restless[id(copy)] = copy

    def throttle(self, bytes_per_s: int, topics: Mapping[str, int]) -> None:
        self._source_side.throttle(throttle.create_limits(bytes_per_s, topics))

    def begin_close(self) -> None:
        """Nothing new is fetched or sent; in-flight batches are awaited and anchors written."""
        self._closing = True
        now_s = self._clock.now_s()
        for copy in self.copies:
            self._carry(copy, copy.close(now_s))
            self._restless[id(copy)] = copy

    @property
    def closed(self) -> bool:
        """What a fenced partition has not recorded is its new owner's to find out."""
        return all(
            copy.standing.phase is PartitionPhase.FENCED
            or (copy.standing.phase is PartitionPhase.CLOSED and copy.fully_recorded)
            for copy in self.copies
        )

    @property
    def fatal(self) -> str:
        """Why no cluster connection can ever work, "" while that is not known."""
        for side in (self._source, self._target):
            if side.view.brokers:
                continue  # some broker took us once: the others' partitions have the reason
            for where, trouble in side.troubles().items():
                if isinstance(trouble, FatalError):
                    return f"{where}: {trouble}"
        return ""

    def send_gauges(self) -> None:
        """What has changed since the last time; with thousands of partitions few have moved."""
        changed = []
        now_s = self._clock.now_s()
        moved, self._moved = self._moved, set()
        for index in sorted(self._index[each] for each in moved):
            copy = self.copies[index]
            gauge = leader_availability.mark_gauge_waiting(
                control_messages.build_gauge(index, copy), self._obstacles.get(id(copy))
            )
            (self._behind.discard if _is_caught_up(copy, gauge) else self._behind.add)(index)
            if self._gauges.get(index) != gauge:
                self._gauges[index] = gauge
                changed.append(gauge)
        idle_s = latency.NEVER_S if self._behind else self._source_side.heard_s()
        pulse = self._crossing.take(idle_s=idle_s)
        self._link.gauges(changed, troubles=self._troubles(), pulse=pulse, now_s=now_s)

    def _troubles(self) -> dict[str, str]:
        """What of either cluster cannot be reached, and why."""
        sides = ((self._aliases[0], self._source), (self._aliases[1], self._target))
        return {
            f"{alias}: {where}": str(trouble)
            for alias, side in sides
            for where, trouble in side.troubles().items()
        }


@dataclass(slots=True, kw_only=True)
class _MonitoredCluster:
    """One cluster's leaders, and which of them are silent, as of the last check."""

    side: ClusterSide
    alias: str
    connections: ClusterConnections
    watch: LeaderMonitor
    silent: dict[int, UnreachableCluster] = field(default_factory=dict)
    _leaders: frozenset[int] = frozenset()
    _generation: int = -1

    def check(self, copies: Sequence[PartitionReplicator], now_s: float, wall_ms: int) -> bool:
        """Has a leader fallen silent, or answered again, since the last check?"""
        view = self.connections.view
        if view.generation != self._generation:
            self._generation = view.generation
            found = (view.leader(*self._mirrored(copy)) for copy in copies)
            self._leaders = frozenset(each.node_id for each in found if each is not None)
        silent = self.watch.check(self._leaders, now_s)
        if silent.keys() == self.silent.keys():
            return False
        self.silent = {
            node_id: self.silent.get(node_id) or self._unreachable(node_id, now_s - last_s, wall_ms)
            for node_id, last_s in silent.items()
        }
        return True

    def silence(self, copy: PartitionReplicator) -> UnavailableLeader | None:
        """What the silence of this cluster's leader of the partition means for it."""
        if not self.silent:
            return None
        leader = self.connections.view.leader(*self._mirrored(copy))
        found = None if leader is None else self.silent.get(leader.node_id)
        if found is None:
            return None
        return UnavailableLeader(side=self.side, reason=found.describe(), silent=True)

    def _mirrored(self, copy: PartitionReplicator) -> tuple[str, int]:
        """The partition's topic on this cluster, and its number."""
        on_source = self.side is ClusterSide.SOURCE
        return copy.where.topic if on_source else copy.where.remote_topic, copy.where.partition

    def _unreachable(self, node_id: int, silent_s: float, wall_ms: int) -> UnreachableCluster:
        trouble = self.connections.trouble(node_id)
        broker = self.connections.view.brokers.get(node_id)
        where = "" if broker is None else f" ({broker.host}:{broker.port})"
        return UnreachableCluster(
            side=self.side,
            cluster=self.alias,
            broker=f"{node_id}{where}",
            reason="" if trouble is None else str(trouble),
            since_ms=wall_ms - round(silent_s * 1000),
        )


def _is_caught_up(copy: PartitionReplicator, gauge: PartitionGauge) -> bool:
    """Is it copied as far as its source is known to go, and would more be?"""
    return copy.wants_data and 0 <= gauge.source_end <= gauge.copied_to
