"""Everything that one schedule needs, put together."""

from __future__ import annotations

from mm2.formats import compression
from mm2.formats.record_codec import RecordFields
from mm2.replication.partition_replicator import PartitionReplicator
from mm2.replication.partition_setup import PartitionSetup
from mm2.topics.flow_config import DeliveryMode, TargetTopicAccess
from tests.model.delivery import events, flow_log, target_log
from tests.model.delivery.coordinator import Coordinator
from tests.model.delivery.events import Events
from tests.model.delivery.flow_log import FlowStateLog
from tests.model.delivery.java_topics import JavaTopics
from tests.model.delivery.java_writer import JavaWriter
from tests.model.delivery.opposite_flow import OppositeFlow
from tests.model.delivery.owner import MakeCopy, Owner
from tests.model.delivery.person import Person
from tests.model.delivery.source_log import SourceLog
from tests.model.delivery.target_log import TargetLog
from tests.model.delivery.weather import Network, Weather

_REFUSALS = (3, 6, 7, 10, 19, 20, 29, 56, 87)


class World:
    """Both partitions, the coordinator, the flow's topics and the owners that fight over them."""

    def __init__(
        self,
        seed: int | str,
        conditions: Weather,
        *,
        make: MakeCopy = PartitionReplicator,
        tracing: bool = False,
    ) -> None:
        self.events = Events(seed, tracing=tracing)
        self.weather = conditions
        self.make = make
        self.network = Network(self.events, conditions)
        self.source = SourceLog(self.events, conditions)
        self.opposite = OppositeFlow(self.events, self.source)
        self.target = TargetLog(self.events, conditions)
        self.coordinator = Coordinator(self.events, conditions, self.target)
        self.java = JavaTopics(self.events, seed)
        java = self.java if conditions.java else None
        self.log = FlowStateLog(self.events, self.target, java, source=self.source, seed=seed)
        self.java_writer: JavaWriter | None = None
        self.owners: list[Owner] = []
        self.person = Person(self)
        self.newest: dict[bytes, Owner] = {}
        self.finished = False
        self.described = not conditions.undescribed
        self.late_takes = 0
        self.idle_tick_s = 6 * 3600.0 if conditions.days else 20.0
        self.setup = _setup(conditions)
        self.transform = _transform(conditions)

    @property
    def running(self) -> list[Owner]:
        """Copies that are alive, frozen or not, and may yet do something."""
        return [each for each in self.owners if each.alive and not each.done]

    @property
    def java_runs(self) -> bool:
        return self.java_writer is not None and self.java_writer.alive

    def start_java(self) -> None:
        """From now on whoever of ours was here before writes late."""
        self.target.java_turn += 1
        self.java_writer = JavaWriter(self)

    def start_owner(self, *, worker: bytes | None = None) -> Owner:
        """A new copy: of a worker that had one before (restarted), or of a new worker."""
        if worker is None:
            worker = b"worker-%d" % len(self.newest)
        started = Owner(self, name=f"copy-{len(self.owners)}", worker=worker, make=self.make)
        self.owners.append(started)
        self.newest[worker] = started
        self.events.note(started.name, f"starts for {worker.decode()}")
        started.begin()
        return started

    def refusal(self) -> int:
        """Now and then the target refuses a batch, with any of the codes that are about it."""
        if self.network.calm or not self.weather.refusals or self.events.random.random() > 0.03:
            return 0
        return self.events.random.choice(_REFUSALS)

    def calm_down(self) -> None:
        """From here on no faults; what is late stays late."""
        self.network.calm = self.target.calm = self.coordinator.calm = True
        self.source.end_all_transactions()


class Filter:
    """Leaves out every fifth record and changes every third."""

    name = "filter"
    deterministic = True

    def __call__(self, fields: RecordFields, timestamp_ms: int) -> RecordFields | None:
        del timestamp_ms
        number = int(dict(fields.headers).get(b"n") or fields.value or b"0")
        if number % 5 == 0:
            return None
        return fields._replace(headers=(*fields.headers, (b"f", b"!"))) if number % 3 else fields


class Stretches(Filter):
    """Leaves out every other twelve records, too."""

    name = "stretches"

    def __call__(self, fields: RecordFields, timestamp_ms: int) -> RecordFields | None:
        number = int(dict(fields.headers).get(b"n") or fields.value or b"0")
        return None if number // 12 % 2 else super().__call__(fields, timestamp_ms)


def _transform(conditions: Weather) -> Filter | None:
    if not conditions.filtered:
        return None
    return Stretches() if conditions.large else Filter()


def _setup(conditions: Weather) -> PartitionSetup:
    start = conditions.start
    if start == "timestamp":
        start = str(events.WALL_AT_ZERO_MS + 3000)
    delivery = DeliveryMode.AUTO
    if conditions.always_transactional:
        delivery = DeliveryMode.TRANSACTIONAL
    topics = TargetTopicAccess.SHARED if conditions.shared else TargetTopicAccess.EXCLUSIVE
    expiry_s = min(conditions.id_expiry_s, target_log.EXPIRATION_MS / 1000)
    return PartitionSetup(
        flow="a->b",
        topic=flow_log.PARTITION.topic,
        remote_topic="a.t",
        partition=flow_log.PARTITION.partition,
        transactional_id="mm2-a->b-t-0",
        start=start,
        target_topics=topics,
        delivery=delivery,
        renew_after_s=expiry_s / 3,
        target_codec=compression.NONE if conditions.large else None,
        opposite_map="mm2-offset-map.b.internal" if conditions.two_way else "",
    )
