"""A flow's map made anew from both logs, where it is lost, or before where it begins.

Where it is lost nobody may copy meanwhile: the flow must be stopped, and each partition is fenced
under its own transactional id before its mirror is read; whoever takes it next finds the anchor,
and pairs what stands behind it. What others copied before the first era is written below all
owners, and hurts nobody who runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from connect_runtime.api import config_types
from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors, ids
from mm2.app.looks import sides, workers
from mm2.app.offsets import comparing, locking, storing
from mm2.connectors.share import flow_ledger
from mm2.connectors.topics import partition_setups
from mm2.core.configs import engine_settings
from mm2.core.copy import (
    match_messages,
    messages,
    opening,
    record_transforms,
    setup,
)
from mm2.core.offsets import offset_map, rebuild_plan, rebuilt_map
from mm2.formats import map_record
from mm2.pipeline import fenced_partition, single_questions

LOOK_S = 60.0
_TAKEN = "somebody has taken it meanwhile"
_DELETED = (
    "all that was replicated is deleted from the mirror topic, and with it how far that was: say "
    "where to begin with mm2 topic reset FLOW TOPIC --from"
)

_NOTHING = "nothing on the mirror is known to be from the source"
_NOTHING_SURE = (
    f"{_NOTHING}: it may hold copies of equal records that the source has lost. If no two records "
    "of the topic were ever alike in time, key, value and headers, say --all-differ"
)


class FlowRunsError(errors.FatalError):
    """What is lost cannot be made anew while somebody copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """What became of one partition. `compared` None: its logs were not compared. `stored` counts
    records of the map; `why`: why there are none, "" where there is nothing to say."""

    partition: ids.TopicPartition
    kind: rebuild_plan.Kind | None
    compared: match_messages.Compared | None = None
    stored: int = 0
    why: str = ""

    @property
    def is_well(self) -> bool:
        """Is all known of it now that can be?"""
        return self.kind is not None and not self.why


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """`reaching` says how the processes that compare reach the clusters, `worker_props` which group
    runs the flow. `questions` connects to the target. `opposite` gives, by its mirror's partition,
    the producers of a flow back that keeps names. `memory_bytes` are for all that compare;
    `all_differ` as in `matching.match`."""

    both: sides.Sides
    ledger: flow_ledger.FlowLedger
    questions: Callable[[], single_questions.SingleQuestions]
    reaching: messages.Configure
    worker_props: Mapping[str, str] = field(repr=False)
    engine: engine_settings.EngineSettings = field(repr=False)
    opposite: Callable[[], offset_map.OffsetMap]
    clock: base_clock.Clock
    pause: Callable[[float], bool]
    tell: Callable[[str], None]
    timeout_s: float
    memory_bytes: int
    all_differ: bool


class Rebuilding:
    """One run. `found` has every partition that was asked for."""

    def __init__(self, tools: Tools, *, writes: bool) -> None:
        """Not `writes`: nothing is fenced, and nothing stored."""
        self._tools = tools
        self._writes = writes
        self._end = base_deadline.Deadline.after(tools.timeout_s, now_s=tools.clock.now_s())
        self._setups: dict[ids.TopicPartition, setup.PartitionSetup] = {}
        self._kinds: dict[ids.TopicPartition, rebuild_plan.Wanted] = {}
        self._fences: dict[ids.TopicPartition, rebuilt_map.Fenced] = {}
        self._deleted: set[ids.TopicPartition] = set()
        self.found: dict[ids.TopicPartition, Rebuilt] = {}

    def run(self, topics: Collection[str]) -> None:
        """`topics` empty: all that the flow mirrors. Raises `FlowRunsError`, and `RetriableError`
        or `FatalError` where a cluster does not answer, or refuses us."""
        tools = self._tools
        tools.ledger.open(LOOK_S)
        known = tools.ledger.catch_up(LOOK_S)
        for unread in known.unreadable():
            raise errors.FatalError(
                unread.describe(topic="the flow's offset map", flow=tools.reaching.flow)
            )
        self._look(topics)
        for each in sorted(self._setups):
            wanted = rebuild_plan.wanted(known.partition(each))
            self._kinds[each] = wanted
            why = wanted.kind.value if wanted.kind is rebuild_plan.Kind.UNTAKEN else ""
            self.found[each] = Rebuilt(partition=each, kind=wanted.kind, why=why)
        due = [each for each, wanted in self._kinds.items() if wanted.is_due]
        lost = [each for each in due if self._kinds[each].kind is rebuild_plan.Kind.LOST]
        if lost and self._writes:
            self._must_rest()
        bounds = self._bounds(due)
        if bounds:
            partitions = tuple(self._setups[each.partition] for each in bounds)
            self._compare(bounds, partitions)

    def _look(self, topics: Collection[str]) -> None:
        tools = self._tools
        both, flow = tools.both, tools.both.flow
        listed = both.source.admin.list_topics(LOOK_S)
        wanted = {each for each in topics or listed if flow.should_replicate_topic(each)}
        described = both.source.admin.describe_topics(wanted, LOOK_S)
        failure = described.first_failure()
        if failure is not None:
            raise failure
        asked = [
            ids.TopicPartition(name, number)
            for name, topic in described.done.items()
            for number in range(topic.partitions)
        ]
        looking = partition_setups.PartitionSetups(
            flow, source=both.source.admin, target=both.target.admin, now=tools.clock
        )
        plan = looking.look(asked, LOOK_S, pause=tools.pause)
        self._setups = {
            ids.TopicPartition(each.topic, each.partition): each for each in plan.partitions
        }
        for each in plan.findings:
            self.found[each.partition] = Rebuilt(
                partition=each.partition, kind=None, why=each.message
            )

    def _must_rest(self) -> None:
        tools = self._tools
        seen = workers.look(
            tools.both.target, tools.worker_props, clock=tools.clock, timeout_s=LOOK_S
        )
        if seen.hosts is None:
            raise errors.RetriableError(
                f"whether anybody runs flow {tools.both.flow.name} is not told by "
                f"{tools.both.flow.target}: what is lost of its map is not made anew. Try again"
            )
        if seen.hosts:
            raise FlowRunsError(
                f"flow {tools.both.flow.name} is run by {', '.join(sorted(seen.hosts))}: what is "
                "lost of its map cannot be made anew while it copies. Stop its mm2 run first"
            )

    def _bounds(self, due: Collection[ids.TopicPartition]) -> list[match_messages.Bounds]:
        """Those that are lost are fenced first: what stands before the marker is final. Then the
        source's ends are noted, and only then who wrote for a flow back: nobody writes a record
        there before that producer stands in its map."""
        target_to = self._fenced(due)
        ends = self._tools.both.source.logs.ends(list(target_to), LOOK_S)
        for each, error in ends.failed.items():
            self._leave(each, f"its end on the source is not known: {error}")
        back = self._back(ends.done)
        return [
            match_messages.Bounds(
                partition=each,
                source_to=self._source_to(each, ends.done[each].end),
                target_to=target_to[each],
                opposite=self._opposite(each, back),
            )
            for each in sorted(ends.done)
        ]

    def _source_to(self, partition: ids.TopicPartition, end: int) -> int:
        wanted = self._kinds[partition].source_to
        return end if wanted < 0 else wanted

    def _fenced(self, due: Collection[ids.TopicPartition]) -> dict[ids.TopicPartition, int]:
        """Up to where the mirror of each is compared; of those left out `found` says why."""
        found = {}
        with self._tools.questions() as questions:
            for each in sorted(due):
                try:
                    target_to = self._target_to(each, self._place(each, questions))
                except errors.ConnectError as error:
                    self._leave(each, f"its mirror cannot be asked: {error}")
                    continue
                if target_to is not None:
                    found[each] = target_to
        return found

    def _target_to(
        self, partition: ids.TopicPartition, place: fenced_partition.FencedPartition
    ) -> int | None:
        """None: nothing is there that could be compared, or nobody can be locked out."""
        wanted = self._kinds[partition]
        if wanted.kind is not rebuild_plan.Kind.LOST:
            return wanted.target_to
        if place.start() > 0:
            self._deleted.add(partition)
        if not self._writes:
            return wanted.target_to
        if place.end() == 0:
            self.found[partition] = Rebuilt(partition=partition, kind=rebuild_plan.Kind.EMPTY)
            return None
        by = locking.lock(place)
        if isinstance(by, str):
            self._leave(partition, by)
            return None
        self._fences[partition] = by
        return by.marker

    def _back(self, asked: Collection[ids.TopicPartition]) -> offset_map.OffsetMap | None:
        """The map of a flow back that keeps names, where any has one."""
        if any(self._setups[each].opposite_map for each in asked):
            return self._tools.opposite()
        return None

    def _opposite(
        self, partition: ids.TopicPartition, back: offset_map.OffsetMap | None
    ) -> frozenset[int]:
        where = self._setups[partition]
        if back is None or not where.opposite_map:
            return frozenset()
        mirror = ids.TopicPartition(where.remote_topic, where.partition)
        return frozenset(back.partition(mirror).producers)

    def _place(
        self, partition: ids.TopicPartition, questions: single_questions.SingleQuestions
    ) -> fenced_partition.FencedPartition:
        """Its mirror."""
        where = self._setups[partition]
        return fenced_partition.FencedPartition(
            questions,
            ids.TopicPartition(where.remote_topic, where.partition),
            transactional_id=where.transactional_id,
            clock=self._tools.clock,
        )

    def _leave(self, partition: ids.TopicPartition, why: str) -> None:
        kind = self._kinds[partition].kind
        self.found[partition] = Rebuilt(partition=partition, kind=kind, why=why)

    def _compare(
        self,
        bounds: list[match_messages.Bounds],
        partitions: tuple[setup.PartitionSetup, ...],
    ) -> None:
        tools = self._tools
        comparing.compare(
            bounds,
            messages.Configure(
                flow=tools.reaching.flow,
                task=0,
                owner=tools.reaching.owner,
                source=tools.reaching.source,
                target=tools.reaching.target,
                partitions=partitions,
                budget_bytes=0,
                transforms=tools.reaching.transforms,
            ),
            tools.engine,
            clock=tools.clock,
            timeout_s=self._end.left_s(tools.clock.now_s()),
            memory_bytes=tools.memory_bytes,
            all_differ=tools.all_differ,
            done=self._compared,
        )

    def _compared(self, compared: match_messages.Compared) -> None:
        partition = compared.partition
        kind = self._kinds[partition].kind
        why = compared.why
        if compared.matched is None and not why:
            if compared.target == 0 and partition in self._deleted:
                why = _DELETED
            elif compared.target == 0:
                kind = rebuild_plan.Kind.EMPTY
            else:
                why = _NOTHING_SURE if not self._tools.all_differ else _NOTHING
        stored = 0
        if compared.matched is not None and self._writes:
            stored, why = self._store(partition, kind, compared)
        self.found[partition] = Rebuilt(
            partition=partition, kind=kind, compared=compared, stored=stored, why=why
        )
        self._tools.tell(f"{partition}: compared")

    def _store(
        self,
        partition: ids.TopicPartition,
        kind: rebuild_plan.Kind,
        compared: match_messages.Compared,
    ) -> tuple[int, str]:
        assert compared.matched is not None
        known = self._tools.ledger.catch_up(LOOK_S).partition(partition)
        if rebuild_plan.wanted(known) != self._kinds[partition]:
            return 0, _TAKEN
        where = self._setups[partition]
        era = map_record.Era(
            source_cluster=where.source_cluster,
            target_cluster=where.target_cluster,
            source_topic_id=where.source_topic_id,
            target_topic_id=where.target_topic_id,
            first_source=compared.matched.first_source,
            first_target=compared.matched.first_target,
            filter_hash=self._filter_hash(where),
            reason=rebuild_plan.REASON,
        )
        if kind is rebuild_plan.Kind.LOST:
            self._must_rest()
            by = self._fences[partition]
            records = rebuilt_map.lost(partition, compared.matched, era, by=by)
        else:
            records = rebuilt_map.before_all(partition, compared.matched, era)
        storing.append(self._tools.ledger, records, clock=self._tools.clock)
        return len(records), "" if self._stands(partition, records) else _TAKEN

    def _stands(self, partition: ids.TopicPartition, records: list[rebuilt_map.Record]) -> bool:
        """Is our era in the map, as we wrote it, and nobody newer than our anchor?"""
        known = self._tools.ledger.catch_up(LOOK_S).partition(partition)
        last, _ = records[-1]
        newest = known.anchor is not None and known.anchor.key == last
        return all(
            known.begun.get(key) == value
            for key, value in records
            if isinstance(key, map_record.EraKey)
        ) and (newest or isinstance(last, map_record.EraKey))

    def _filter_hash(self, where: setup.PartitionSetup) -> int:
        chain = record_transforms.chain(
            self._tools.reaching.transforms, load=config_types.load_class
        )
        if chain is None:
            return 0
        try:
            return opening.filter_hash(chain.of(where))
        finally:
            chain.close()
