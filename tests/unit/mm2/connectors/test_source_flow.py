"""Planning: what a flow hands to its tasks at its first start, and at later ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from connect_runtime.base import errors, ids
from connect_runtime.system import clock
from mm2.connectors import flow_ledger, flow_status, source_connector, source_flow
from mm2.core import flows, naming
from mm2.core.copy import messages
from mm2.formats import map_record
from tests.fakes import admin, flow_log, opposite, taking

LATEST = flows.StartPosition(flows.StartAt.LATEST)


class Pair:
    """Two clusters that outlive the flow between them; `orders` is on the source."""

    def __init__(self) -> None:
        self.source, self.target = admin.FakeCluster(), admin.FakeCluster()
        self.source.create("orders", partitions=2)
        self.flow = flows.Flow(
            source="east", target="west", replication_factor=1, start=LATEST, admin_timeout_s=5.0
        )

    def start(
        self, *, meanwhile: Callable[[source_flow.SourceFlow], object] = bool
    ) -> source_flow.SourceFlow:
        """A new process's flow, planned once; its plan is in `planned`. `meanwhile` happens as it
        asks its clusters."""
        self.planned: list[source_connector.SourcePlan] = []
        now = clock.SystemClock()
        engine: Any = SimpleNamespace(slots=lambda: SimpleNamespace(missing=0))
        server: Any = None
        made = source_flow.SourceFlow(
            self.flow,
            connector=source_connector.SourceConnector(
                self.flow,
                source=admin.FakeAdmin(self.source),
                target=admin.FakeAdmin(self.target),
                now=now,
                pause=lambda _: True,
                stopped=lambda: False,
            ),
            ledger=flow_ledger.FlowLedger(flow_log.FakeFlowLog(self.target, source_alias="east")),
            run_in=engine,
            server=server,
            configure=self.keep,
            opposite=opposite.Source(self.source).ids(),
            now=now,
            random=random.Random(1),
        )
        connector: Any = made._connector
        plan = connector.plan
        connector.plan = lambda timeout_s: (meanwhile(made), plan(timeout_s))[1]
        made.run_once()
        return made

    def keep(
        self,
        flow: flows.Flow,
        plan: source_connector.SourcePlan,
        before: Sequence[messages.Configure],
    ) -> list[messages.Configure]:
        self.planned.append(plan)
        return []

    def starts(self) -> list[str]:
        self.start()
        return [each.start for each in self.planned[0].partitions]

    def began(self, partition: int) -> None:
        """The first take of this partition has stored its era."""
        key = map_record.EraKey(topic="orders", partition=partition, era=1, ordinal=1, epoch=0)
        era = taking.era(source_topic_id=self.source.topics["orders"].topic_id.bytes)
        log = self.target.topics[naming.map_topic("east")].log
        log.append((map_record.encode_key(key), map_record.encode_value(era)))

    def grow(self, count: int) -> None:
        self.source.topics["orders"].partitions = count


def test_at_the_first_start_all_partitions_start_where_the_flow_says():
    pair = Pair()
    assert pair.starts() == ["latest", "latest"]


def test_a_start_that_stored_nothing_is_still_the_first():
    pair = Pair()
    pair.start()
    pair.grow(3)
    assert pair.starts() == ["latest"] * 3


def test_partitions_that_are_added_later_start_at_the_earliest_record():
    pair = Pair()
    pair.start()
    for each in (1, 0):
        pair.began(each)
    pair.grow(4)
    assert pair.starts() == ["latest", "latest", "earliest", "earliest"]
    assert pair.target.topics["east.orders"].partitions == 4
    # Their first take has failed: the mirror is as large as it should be when planned again.
    assert pair.starts() == ["latest", "latest", "earliest", "earliest"]
    pair.began(2)
    assert pair.starts() == ["latest", "latest", "latest", "earliest"]


def test_a_map_that_cannot_be_read_is_told_before_anything_is_copied():
    pair = Pair()
    pair.start()
    pair.target.topics[naming.map_topic("east")].log.append((b"\xff\xffwhat", b"this"))
    flow = pair.start()
    assert flow.status.state is flow_status.FlowState.FAILED
    assert "reading the flow's offset map at offset 0" in flow.status.reason
    assert pair.planned == []


def test_a_topic_that_was_made_again_with_more_partitions_stands_still_as_a_whole():
    """Else its new partitions would go to the mirror of another topic."""
    pair = Pair()
    pair.start()
    for each in (0, 1):
        pair.began(each)
    del pair.source.topics["orders"]
    pair.source.create("orders", partitions=3)
    flow = pair.start()
    (plan,) = pair.planned
    assert [each.partition for each in plan.partitions] == [0, 1]  # whose takes will tell
    flow._publish()
    (waiting,) = flow.status.partitions
    assert (waiting.partition.partition, waiting.cause) == (2, "recreated")
    assert "was deleted and created again" in waiting.reason


def test_a_flow_that_is_stopped_while_it_plans_copies_nothing():
    """Another one may have its place by the time its clusters answer."""
    pair = Pair()
    flow = pair.start(meanwhile=lambda flow: flow.stop_asked.set())
    assert flow.status.state is flow_status.FlowState.STOPPED
    assert pair.planned == []


def test_a_map_that_refuses_to_be_read_while_the_flow_runs_ends_it_with_the_reason():
    """Opened again it is the same; copies would be ended and begun for ever."""
    pair = Pair()
    flow = pair.start()
    assert flow.status.state is flow_status.FlowState.RUNNING
    log: Any = flow._ledger._log
    answered: list[object] = []

    def refuse(timeout_s: float) -> object:
        raise errors.FatalError("the record at offset 3 has no key")

    log.read_to_end = refuse
    flow._ledger.want(
        flow_ledger.FactsWanted(
            partition=ids.TopicPartition("orders", 0),
            target=None,
            answer=lambda *found: answered.append(found),
        )
    )
    flow.run_once()
    assert (flow.status.state, flow.ended) == (flow_status.FlowState.FAILED, True)
    assert flow.status.reason == "the record at offset 3 has no key"
    assert answered == []


def test_a_map_that_can_be_read_again_is_gone_on_with():
    pair = Pair()
    flow = pair.start()
    log: Any = flow._ledger._log
    read, left = log.read_to_end, [errors.RetriableError("no answer")]

    def late(timeout_s: float) -> object:
        if left:
            raise left.pop()
        return read(timeout_s)

    log.read_to_end = late
    flow._note_broken(errors.RetriableError("the log lost records"))
    flow.run_once()
    flow._wait_until_s = 0.0
    broken = [flow._broken is not None]
    flow.run_once()
    broken.append(flow._broken is not None)
    assert broken == [True, False]
    assert flow.status.state is flow_status.FlowState.RUNNING
