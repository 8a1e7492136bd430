"""Mirrors on a target whose brokers refuse, fail for a while, or know of changes late."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import pytest

from connect_runtime.base.clock_and_deadline import Deadline
from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.kafka.client_errors import (
    NotAuthorizedError,
    TopicMissingError,
    UnreachableError,
)
from connect_runtime.protocol.topic_requests import NewTopic
from mm2.connectors import mirror_topic_writer
from mm2.connectors.mirror_topic_writer import MirrorTopicsResult, MirrorTopicWriter
from mm2.kafka.kafka_client_interfaces import PerTopicResult, TopicDescription
from mm2.topics.flow_config import Flow
from tests.fakes.admin import FakeAdmin, FakeCluster

LATER = RetriableError("NOT_CONTROLLER")
REFUSED = NotAuthorizedError("CREATE is not allowed")


class LateAdmin(FakeAdmin):
    """Its brokers tell of a topic as in `late` until so many more descriptions were asked for."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(cluster)
        self.late: dict[str, int | None] = {}
        self.looks = 0

    def describe_topics(
        self, names: Collection[str], timeout_s: float
    ) -> PerTopicResult[TopicDescription]:
        found = super().describe_topics(names, timeout_s)
        if self.looks <= 0:
            return found
        self.looks -= 1
        done, failed = dict(found.succeeded), dict(found.failed)
        for name in done.keys() & self.late.keys():
            partitions = self.late[name]
            if partitions is None:
                del done[name]
                failed[name] = TopicMissingError(f"topic {name} does not exist")
            else:
                done[name] = TopicDescription(
                    name=name, topic_id=done[name].topic_id, leaders=(1,) * partitions
                )
        return PerTopicResult(succeeded=done, failed=failed)

    def create_topics(
        self,
        topics: Collection[NewTopic],
        timeout_s: float,
        *,
        validate_only: bool = False,
    ) -> PerTopicResult[None]:
        created = super().create_topics(topics, timeout_s, validate_only=validate_only)
        self.late.update(dict.fromkeys(created.succeeded, None))
        return created

    def add_partitions(
        self, partitions: Mapping[str, int], timeout_s: float
    ) -> PerTopicResult[None]:
        self.late.update({name: self._cluster.topics[name].partitions for name in partitions})
        return super().add_partitions(partitions, timeout_s)


class Pair:
    """Two clusters and a clock that only moves while somebody pauses."""

    def __init__(self) -> None:
        self.source, self.target = FakeCluster(), FakeCluster()
        self.target_admin = LateAdmin(self.target)
        self.now = 100.0
        self.stopping = False
        self.ended = False
        self.heals_at: float | None = None
        flow = Flow(source="east", target="west", replication_factor=1)
        self.mirrors = MirrorTopicWriter(
            flow,
            source=FakeAdmin(self.source),
            target=self.target_admin,
            clock=self,
            pause=self._pause,
            stopped=lambda: self.ended,
        )

    def now_s(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 0

    def _pause(self, timeout_s: float) -> bool:
        self.now += timeout_s
        if self.heals_at is not None and self.now >= self.heals_at:
            self.source.failures.clear()
            self.target.failures.clear()
        return self.stopping

    @property
    def waited_s(self) -> float:
        return round(self.now - 100.0, 3)

    def bring_about(self, timeout_s: float = 60.0) -> MirrorTopicsResult:
        end = Deadline.after(timeout_s, now_s=self.now)
        return self.mirrors.apply_changes(sorted(self.source.topics), end, sync_configs=True)

    def sizes(self, found: MirrorTopicsResult) -> dict[str, int]:
        return {name: pair.mirror.partitions for name, pair in found.pairs.items()}


@pytest.fixture
def pair() -> Pair:
    made = Pair()
    made.source.create("orders", partitions=4)
    made.source.create("users", partitions=1)
    return made


def test_mirrors_are_created_and_grown_without_waiting(pair):
    pair.target.create("east.orders", partitions=2)
    found = pair.bring_about()
    assert pair.sizes(found) == {"orders": 4, "users": 1}
    assert (found.problems, pair.waited_s) == ({}, 0.0)


# Brokers that know of it late


def test_a_mirror_that_was_created_is_waited_for(pair):
    pair.target_admin.looks = 7
    assert pair.sizes(pair.bring_about()) == {"orders": 4, "users": 1}
    assert 0.0 < pair.waited_s < mirror_topic_writer.METADATA_PROPAGATION_TIMEOUT_S


def test_a_mirror_that_was_grown_is_waited_for_until_it_is_as_large(pair):
    """The old count is an answer like any other, and would drop the new partitions."""
    pair.target.create("east.orders", partitions=2)
    pair.target_admin.looks = 7
    assert pair.sizes(pair.bring_about()) == {"orders": 4, "users": 1}
    assert 0.0 < pair.waited_s < mirror_topic_writer.METADATA_PROPAGATION_TIMEOUT_S


def test_a_mirror_that_stays_small_is_told_as_it_is_when_time_is_up(pair):
    pair.target.create("east.orders", partitions=2)
    pair.target_admin.looks = 100_000
    del pair.source.topics["users"]
    assert pair.sizes(pair.bring_about()) == {"orders": 2}
    assert pair.waited_s == pytest.approx(
        mirror_topic_writer.METADATA_PROPAGATION_TIMEOUT_S, abs=0.2
    )


def test_the_wait_ends_with_the_time_that_was_given(pair):
    pair.target.create("east.orders", partitions=2)
    pair.target_admin.looks = 100_000
    pair.bring_about(3.0)
    assert pair.waited_s <= 3.2


def test_nobody_waits_while_stopping(pair):
    pair.target_admin.looks = 100_000
    pair.stopping = True
    found = pair.bring_about()
    assert (found.pairs, set(found.problems)) == ({}, {"orders", "users"})
    assert pair.waited_s < 2.0


def test_nothing_is_made_any_more_once_the_flow_is_to_end(pair):
    """While the look was under way: another configuration of the flow may be in force by now."""
    pair.target.create("east.orders", partitions=2)
    pair.ended = True
    with pytest.raises(RetriableError, match="east->west is stopping"):
        pair.bring_about()
    assert set(pair.target.topics) == {"east.orders"}
    assert pair.target.topics["east.orders"].partitions == 2


# Failures that pass, and that do not


@pytest.mark.parametrize(
    "place",
    [
        ("create_topics", "east.orders"),
        ("describe_topics", "east.orders"),
        ("topic_configs", "east.orders"),
    ],
)
def test_a_passing_failure_on_the_target_is_tried_again(pair, caplog, place):
    pair.target.failures[place] = LATER
    pair.heals_at = 105.0
    with caplog.at_level(logging.WARNING):
        found = pair.bring_about()
    assert (pair.sizes(found), dict(found.problems)) == ({"orders": 4, "users": 1}, {})
    assert pair.waited_s < 12.0
    if place[0] == "create_topics":
        assert "retrying 1 topic; first error: east->west orders: NOT" in caplog.text


def test_passing_failures_of_growth_and_of_the_source_are_tried_again(pair):
    pair.target.create("east.orders", partitions=2)
    pair.target.failures["grow_topics", "east.orders"] = LATER
    pair.source.failures["describe_topics", "users"] = LATER
    pair.heals_at = 105.0
    found = pair.bring_about()
    assert (pair.sizes(found), dict(found.problems)) == ({"orders": 4, "users": 1}, {})
    assert pair.waited_s < 6.1


def test_a_failure_that_does_not_pass_in_time_is_its_topics_alone(pair):
    pair.target.failures["create_topics", "east.orders"] = LATER
    found = pair.bring_about()
    assert pair.sizes(found) == {"users": 1}
    problem = found.problems["orders"]
    assert (problem.message, problem.is_transient) == ("east->west orders: NOT_CONTROLLER", True)
    assert (problem.partitions, problem.cause) == (4, "topic-refused")
    assert pair.waited_s == pytest.approx(mirror_topic_writer.TOPIC_RETRY_TIMEOUT_S, abs=1.1)


def test_half_of_a_short_time_is_left_for_the_rest_of_the_plan(pair):
    pair.target.failures["create_topics", "east.orders"] = LATER
    pair.bring_about(10.0)
    assert pair.waited_s == pytest.approx(5.0, abs=1.1)


@pytest.mark.parametrize("operation", ["create_topics", "grow_topics"])
def test_what_is_refused_is_not_waited_for(pair, operation):
    if operation == "grow_topics":
        pair.target.create("east.orders", partitions=2)
    pair.target.failures[operation, "east.orders"] = REFUSED
    found = pair.bring_about()
    assert pair.sizes(found) == {"users": 1}
    assert found.problems["orders"].message == "east->west orders: CREATE is not allowed"
    assert pair.waited_s == 0.0


def test_what_a_setting_blocks_is_not_waited_for(pair):
    pair.source.create("stamped", message_timestamp_type="CreateTime")
    pair.target.create("east.stamped", message_timestamp_type="LogAppendTime")
    found = pair.bring_about()
    assert pair.sizes(found) == {"orders": 4, "users": 1}
    assert found.problems["stamped"].cause == "target-setting"
    assert "LogAppendTime" in found.problems["stamped"].message
    assert pair.waited_s == 0.0


def test_a_mirror_that_cannot_be_seen_is_not_created(pair):
    pair.target.create("east.orders", partitions=2)
    pair.target.failures["topic_configs", "east.orders"] = FatalError("UNKNOWN")
    found = pair.bring_about()
    assert found.problems["orders"].message == "east->west orders: UNKNOWN"
    assert pair.target.topics["east.orders"].partitions == 2


def test_a_cluster_that_goes_away_meanwhile_is_no_topics_problem(pair):
    pair.target.away = True
    with pytest.raises(UnreachableError):
        pair.bring_about()


def test_warnings_are_kept_by_topic(pair):
    pair.target.create("east.users", partitions=3)
    pair.target.failures["create_topics", "east.orders"] = LATER
    pair.heals_at = 103.0
    found = pair.bring_about()
    assert list(found.warnings) == ["users"]
    assert (
        "the mirror topic has 3 partitions, but the source topic has 1;"
        in found.warnings["users"][0]
    )


def test_the_flows_own_topic_shows_which_settings_the_target_has(pair: Pair):
    """With mirrors still to be made, and no right to read the brokers' settings."""
    pair.source.create("old", message_downconversion_enable="true")
    pair.target.create("mm2-offset-map.east.internal", message_timestamp_difference_max_ms="1")
    pair.target.may_describe_brokers = False

    found = pair.bring_about()

    created = pair.target.topics["east.old"].overrides
    assert created == {"message.timestamp.difference.max.ms": str(2**63 - 1)}
    assert ["message.downconversion.enable" in line for line in found.warnings["old"]] == [True]
    assert "users" not in found.warnings


# Settings alone


def test_settings_follow_where_mirrors_are_and_nothing_else_is_done(pair):
    pair.target.create("east.orders", partitions=2)
    pair.source.topics["orders"].overrides["retention.ms"] = "77"
    pair.target.topics["east.orders"].overrides["cleanup.policy"] = "compact"
    end = Deadline.after(60.0, now_s=pair.now)
    pair.mirrors.sync_configs(["orders", "users"], end)
    assert pair.target.topics["east.orders"].overrides["retention.ms"] == "77"
    assert "cleanup.policy" not in pair.target.topics["east.orders"].overrides
    assert pair.target.topics["east.orders"].partitions == 2
    assert "east.users" not in pair.target.topics


def test_settings_do_not_follow_any_more_once_the_flow_is_to_end(pair):
    pair.target.create("east.orders", partitions=4)
    pair.source.topics["orders"].overrides["retention.ms"] = "77"
    pair.ended = True
    pair.mirrors.sync_configs(["orders"], Deadline.after(60.0, now_s=pair.now))
    assert pair.target.topics["east.orders"].overrides == {}


def test_what_is_about_to_follow_is_not_warned_of_and_waits_for_its_time(pair):
    pair.target.create("east.orders", partitions=4)
    pair.source.topics["orders"].overrides["cleanup.policy"] = "compact"
    end = Deadline.after(60.0, now_s=pair.now)
    found = pair.mirrors.apply_changes(["orders"], end, sync_configs=False)
    assert dict(found.warnings) == {}
    assert "cleanup.policy" not in pair.target.topics["east.orders"].overrides
