"""What a later look at both clusters changes for copies that run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from connect_runtime.base import ids
from mm2.connectors import flow_changes, source_connector
from mm2.core import flows
from mm2.core.copy import messages, setup
from tests.fakes import taking

FLOW = flows.Flow(source="east", target="west")


def where(topic: str, partition: int = 0, **changed: Any) -> setup.PartitionSetup:
    given = {"remote_topic": f"east.{topic}", "start": "latest", **changed}
    return taking.where(topic=topic, partition=partition, **given)


def finding(topic: str, *, spoils: bool = False, partition: int = 0) -> source_connector.Finding:
    return source_connector.Finding(
        partition=ids.TopicPartition(topic, partition),
        cause="some",
        message=f"{topic} is wrong",
        spoils=spoils,
    )


def merged(
    running: list[setup.PartitionSetup],
    found: list[setup.PartitionSetup],
    *findings: source_connector.Finding,
    known: tuple[str, ...] = (),
) -> flow_changes.Later:
    plan = source_connector.SourcePlan(
        partitions=tuple(found), findings=findings, warnings=("said",)
    )
    return flow_changes.merged(running, plan, known={*known, *(each.topic for each in running)})


def test_what_is_found_again_as_it_was_changes_nothing():
    running = [where("a"), where("b", 1), where("b", 0)]
    later = merged(running, running)
    assert later.partitions == (running[0], running[2], running[1])
    assert (later.findings, later.news, later.warnings) == ((), (), ("said",))


def test_topics_that_came_into_being_begin_at_the_earliest_record():
    later = merged([where("a")], [where("a"), where("b"), where("b", 1)])
    assert [(each.topic, each.start) for each in later.partitions] == [
        ("a", "latest"),
        ("b", "earliest"),
        ("b", "earliest"),
    ]
    assert later.news == ("topic b is mirrored from now on (partitions: 2)",)


def test_a_topic_that_was_told_of_before_begins_where_the_flow_says():
    (_, late) = merged([where("a")], [where("a"), where("b")], known=("b",)).partitions
    assert late.start == "latest"


def test_added_partitions_are_told():
    later = merged([where("a")], [where("a"), where("a", 1), where("a", 2)])
    assert later.news == ("topic a partitions: 2 more are mirrored, from their first records on",)
    starts = [(each.partition, each.start) for each in later.partitions]
    assert starts == [(0, "latest"), (1, "earliest"), (2, "earliest")]


def test_a_topic_that_is_no_longer_listed_is_copied_on_until_its_copy_says_so():
    later = merged([where("a"), where("b")], [where("a")])
    assert [each.topic for each in later.partitions] == ["a", "b"]
    (_, warning) = later.warnings
    assert "topic b is no longer listed by the source" in warning


def test_a_topic_that_has_fewer_partitions_now_is_none_that_is_gone():
    later = merged([where("a"), where("a", 1)], [where("a")])
    assert [each.partition for each in later.partitions] == [0, 1]
    assert later.warnings == ("said",)


def test_a_look_that_fails_for_a_topic_ends_no_copy():
    """Of a topic that cannot be described, only the first partition is known to be there."""
    running = [where("a"), where("a", 1)]
    later = merged(running, [], finding("a"))
    assert later.partitions == tuple(running)
    assert later.findings == ()
    assert later.warnings == ("said", "a is wrong")


def test_a_partition_that_the_mirror_still_lacks_is_found_again():
    later = merged([where("a")], [where("a")], finding("a", partition=1))
    assert [each.partition.partition for each in later.findings] == [1]


def test_a_mirror_that_would_spoil_what_is_copied_gets_nothing_more():
    running = [where("a"), where("a", 1), where("b")]
    wrong = [finding("a", spoils=True, partition=number) for number in (0, 1)]
    later = merged(running, [where("b")], *wrong)
    assert [each.topic for each in later.partitions] == ["b"]
    assert later.findings == tuple(wrong)
    assert later.warnings == ("said",)


def test_what_differs_but_the_budgets_is_another_flow():
    assert flow_changes.is_same(FLOW, replace(FLOW, budgets=flows.Budgets(flow=5)))
    assert not flow_changes.is_same(FLOW, replace(FLOW, refresh_topics_interval_s=5))


def test_a_share_is_the_same_while_nothing_that_a_copy_goes_by_differs():
    access = messages.ClusterAccess(alias="x", bootstrap=(), security={}, client_id="")

    def task(*partitions: setup.PartitionSetup) -> messages.Configure:
        return messages.Configure(
            flow="f",
            task=0,
            owner=taking.ME,
            source=access,
            target=access,
            partitions=partitions,
            budget_bytes=1,
        )

    one = task(where("a"), where("b"))
    assert flow_changes.same_share(one, task(where("b"), where("a", source_topic_id=b"2" * 16)))
    assert not flow_changes.same_share(one, task(where("a")))
    assert not flow_changes.same_share(one, task(where("a"), where("b", target_codec=1)))
    shorter: dict[str, Any] = {"old_after_ms": 1_000, "renew_after_s": 1.0}
    assert not flow_changes.same_share(one, task(where("a"), where("b", **shorter)))
    assert flow_changes.same_share(task(where("a", **shorter)), task(where("a")))


def test_another_configuration_ends_what_it_does_not_want_and_nothing_else():
    """Of a topic that it wants, the look may fail."""
    running = [where("a"), where("b"), where("c")]
    plan = source_connector.SourcePlan(
        partitions=(where("a"), where("d")), findings=(finding("b"),)
    )
    later = flow_changes.adopted(running, plan)
    assert [(each.topic, each.start) for each in later.partitions] == [
        ("a", "latest"),
        ("b", "latest"),
        ("d", "latest"),
    ]
    assert later.news == ("topic d is mirrored from now on (partitions: 1)",)
    assert (later.findings, later.warnings) == ((), ("b is wrong",))


def test_another_configuration_ends_what_the_mirror_would_spoil():
    plan = source_connector.SourcePlan(partitions=(), findings=(finding("b", spoils=True),))
    later = flow_changes.adopted([where("b")], plan)
    assert (later.partitions, later.findings) == ((), plan.findings)
