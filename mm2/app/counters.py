"""What `mm2 run` counts: the counters and histograms of `core/measures`, as its flows show them.

Tasks count from when they began, on whichever node. What one of this node counts raises ours by
what it grew; of one that is gone, or has a new life (`flow_status.TaskStatus.life`), nothing is
kept, so that the next begins at nothing, too.

Missed is what a task counted after the last look before it ended; and, of a partition that one and
the same task lost and got again between two looks, as much as it had counted before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.base import ids, metrics
from mm2.connectors import flow_status
from mm2.core import measures
from mm2.core.copy import crossing

GONE_MS = 600_000
"""So long counters of a topic that is here no more are told: a server has scraped them since."""

_Pulses = Mapping[str, Mapping[int, crossing.Pulse]]
_OF_TOPICS = (
    measures.RECORDS,
    measures.BYTES,
    measures.BATCHES,
    measures.DUPLICATES,
    measures.RECEIPTS,
)
_OF_FLOWS = (*_OF_TOPICS, measures.RESTARTS, measures.REBALANCES, measures.LATENCY)


@dataclass(slots=True)
class _Task:
    """What a task that runs here has counted in this life, as of the last look."""

    life: int
    restarts: int = 0
    receipts: dict[tuple[str, str], int] = field(default_factory=dict)
    copied: dict[ids.TopicPartition, flow_status.PartitionStatus] = field(default_factory=dict)


@dataclass(slots=True)
class Counters:
    """A fold from snapshots; one thread's.

    Invariant: counters have grown by exactly what each reading of a task rose by since it was first
    seen in this life; one that fell all the same had begun again at 0.
    """

    registry: metrics.Registry
    _tasks: dict[tuple[str, int], _Task] = field(default_factory=dict)
    _crossed: dict[tuple[str, int], crossing.Pulse] = field(default_factory=dict)
    _rebalances: dict[str, int] = field(default_factory=dict)
    _topics: dict[str, set[str]] = field(default_factory=dict)
    """By flow: those of which something was counted at the last look."""
    _gone_ms: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Since when a flow, or a flow's topic, is here no more."""

    def look(
        self, status: flow_status.FlowStatus, before: flow_status.FlowStatus | None, wall_ms: int
    ) -> None:
        """At a flow; `before` is that of the last look at it."""
        flow = status.flow
        self.registry.add(measures.RESTARTS, 0, labels=(flow,))
        lives = {(flow, each.index): each.life for each in status.tasks if _counts(each)}
        for key in [key for key in self._tasks if key[0] == flow]:
            if lives.get(key) != self._tasks[key].life:
                del self._tasks[key]
        for task in status.tasks:
            if (flow, task.index) in lives:
                known = self._tasks.setdefault((flow, task.index), _Task(life=task.life))
                self._count_restarts(flow, task, known)
                self._count_receipts(flow, task, known)
        moved = _moved(status, before)
        if moved is status.partitions:
            self._keep(flow, moved)
        for each in moved:
            self._count_copied(flow, each, self._tasks.get((flow, each.task)))
        self._note_topics(status, wall_ms)

    def look_at_pulses(self, pulses: _Pulses) -> None:
        """Of all copies that there are."""
        there = {(flow, number) for flow, found in pulses.items() for number in found}
        self._crossed = {key: each for key, each in self._crossed.items() if key in there}
        for flow, number in there:
            before, now = self._crossed.get((flow, number)), pulses[flow][number]
            if before is not now:
                self._crossed[flow, number] = now
                rise = now if before is None else now.since(before)
                found = metrics.Distribution(rise.counts, rise.sum_ms / 1000)
                self.registry.observe(measures.LATENCY, found, labels=(flow,))

    def look_at_rebalances(self, found: Mapping[str, int]) -> None:
        """How many there were of each flow that runs here."""
        for flow, count in found.items():
            rise = _rise(self._rebalances.get(flow, 0), count)
            self.registry.add(measures.REBALANCES, rise, labels=(flow,))
        self._rebalances = dict(found)

    def forget(self, flows: Collection[str], wall_ms: int) -> None:
        """What is here no more, for so long that it has been told of often enough; `flows` are."""
        for flow in self._topics.keys() - flows:
            self._gone_ms.setdefault((flow,), wall_ms)
            for task in [task for task in self._tasks if task[0] == flow]:
                del self._tasks[task]
        due = [key for key, since_ms in self._gone_ms.items() if wall_ms - since_ms >= GONE_MS]
        for key in due:
            del self._gone_ms[key]
            for metric in _OF_FLOWS if len(key) == 1 else _OF_TOPICS:
                self.registry.forget(metric, key)
            if len(key) == 1:
                del self._topics[key[0]]

    def _keep(self, flow: str, shown: Sequence[flow_status.PartitionStatus]) -> None:
        """What a task is given again it counts anew."""
        there = {(each.task, each.partition) for each in shown}
        for (name, number), task in self._tasks.items():
            if name == flow:
                task.copied = {
                    place: each for place, each in task.copied.items() if (number, place) in there
                }

    def _note_topics(self, status: flow_status.FlowStatus, wall_ms: int) -> None:
        topics = {each.partition.topic for each in status.partitions}
        topics.update(each.topic for task in status.tasks for each in task.receipts)
        for topic in self._topics.get(status.flow, set()) - topics:
            self._gone_ms[status.flow, topic] = wall_ms
        self._topics[status.flow] = topics
        if self._gone_ms:
            for key in ((status.flow,), *((status.flow, topic) for topic in topics)):
                self._gone_ms.pop(key, None)

    def _count_restarts(self, flow: str, task: flow_status.TaskStatus, known: _Task) -> None:
        rise = _rise(known.restarts, task.restarts)
        self.registry.add(measures.RESTARTS, rise, labels=(flow,))
        known.restarts = task.restarts

    def _count_receipts(self, flow: str, task: flow_status.TaskStatus, known: _Task) -> None:
        for each in task.receipts:
            rise = _rise(known.receipts.get((each.topic, each.kind), 0), each.count)
            self.registry.add(measures.RECEIPTS, rise, labels=(flow, each.topic, each.kind))
        known.receipts = {(each.topic, each.kind): each.count for each in task.receipts}

    def _count_copied(
        self, flow: str, now: flow_status.PartitionStatus, known: _Task | None
    ) -> None:
        """Without a task that counts, what is shown was counted before."""
        before = now
        if known is not None:
            before = known.copied.get(now.partition, _NOTHING)
            if before is now:
                return
            known.copied[now.partition] = now
        labels = (flow, now.partition.topic)
        passed, opened = ((*labels, path) for path in ("passed", "opened"))
        add = self.registry.add
        add(measures.RECORDS, _rise(before.records, now.records), labels=labels)
        add(measures.BYTES, _rise(before.bytes, now.bytes), labels=labels)
        add(measures.DUPLICATES, _rise(before.spared, now.spared), labels=labels)
        add(measures.BATCHES, _rise(before.made, now.made), labels=opened)
        rise = _rise(before.batches - before.made, now.batches - now.made)
        add(measures.BATCHES, rise, labels=passed)


_NOTHING = flow_status.PartitionStatus(
    partition=ids.TopicPartition("", 0),
    task=-1,
    phase="",
    reason="",
    cause="",
    records=0,
    bytes=0,
    copied_to=-1,
    source_end=-1,
    age_ms=0,
    oldest_ms=-1,
    transactional=False,
)


def _counts(task: flow_status.TaskStatus) -> bool:
    """Without a life what is shown is of the one before."""
    return task.life > 0 and task.state is not flow_status.TaskState.FAILED


def _rise(before: int, now: int) -> int:
    return now - before if now >= before else now


def _moved(
    status: flow_status.FlowStatus, before: flow_status.FlowStatus | None
) -> Sequence[flow_status.PartitionStatus]:
    """Those that are not what they were; all of them, the very same sequence, where others are
    shown than before, or of other lives."""
    was = () if before is None else before.partitions
    if before is None or len(was) != len(status.partitions) or _lives(status) != _lives(before):
        return status.partitions
    both = zip(status.partitions, was, strict=True)
    moved = [(now, then) for now, then in both if now is not then]
    if any(_owned(now) != _owned(then) for now, then in moved):
        return status.partitions
    return [now for now, _ in moved]


def _lives(status: flow_status.FlowStatus) -> list[tuple[int, int]]:
    return [(each.index, each.life) for each in status.tasks]


def _owned(each: flow_status.PartitionStatus) -> tuple[ids.TopicPartition, int]:
    return each.partition, each.task
