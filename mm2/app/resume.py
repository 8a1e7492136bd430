"""`mm2 resume`: an operator's request, written into a flow's map, that partitions begin anew.

The request is answered when a copy next takes the partition: at the next start of the flow. Check
first, then write, then read back what was written.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect_runtime.app.settings import problems
from connect_runtime.base import clock, errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import admin
from mm2.connectors.share import flow_ledger
from mm2.connectors.source import era_requests
from mm2.core import flows
from mm2.core.offsets import offset_map
from mm2.formats import map_record

WATCH_S = 2.5
"""Anchors of a busy flow move every second or so."""
TIMEOUT_S = era_requests.TIMEOUT_S

EARLIEST = "earliest"
LATEST = "latest"


class WrongRequestError(errors.FatalError):
    """What was asked for does not fit the flow or the source."""


class FlowRunsError(errors.FatalError):
    """The flow writes anchors, so some process runs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the operator wants. `partitions` empty: all of the topic.

    `position` is `earliest`, `latest`, a timestamp (ms since 1970 UTC) or `offset:N`.
    """

    flow: flows.Flow
    topic: str
    partitions: tuple[int, ...]
    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One partition's request, as it stands in the map now, and the map of that partition."""

    partition: ids.TopicPartition
    position: str
    known: offset_map.PartitionMap

    def describe(self) -> str:
        """What happens at the next start, in one line."""
        anchor = self.known.anchor
        then = f"at the next start era {self.known.newest_era + 1} begins "
        if anchor is None:
            return f"{self.partition}: never copied so far; {then}{_place(self.position)}"
        through = anchor.segment.through
        return (
            f"{self.partition}: copied up to source offset {through}; {then}"
            f"{_place(self.position)}; {_price(self.position, through)}"
        )


def _place(position: str) -> str:
    if position == EARLIEST:
        return "at the first record that the source holds then"
    if position == LATEST:
        return "behind the last record that the source holds then"
    if position.startswith(map_record.AT_OFFSET):
        return f"at source offset {position.removeprefix(map_record.AT_OFFSET)}"
    moment = datetime.datetime.fromtimestamp(int(position) / 1000, tz=datetime.UTC)
    return f"at the first record of {moment.isoformat(timespec='milliseconds')} or later"


def _price(position: str, through: int) -> str:
    twice = f"records below offset {through} that are copied again stand twice on the target"
    left_out = f"records from offset {through} on that lie before it are left out, with a receipt"
    if position == EARLIEST:
        return twice
    if position == LATEST:
        return left_out
    return f"{twice}, {left_out}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """`pause` waits so many seconds, `new_id` makes the ids of requests."""

    source: admin.Admin
    ledger: flow_ledger.FlowLedger
    clock: clock.Clock
    pause: Callable[[float], object]
    new_id: Callable[[], str]


def resume(order: Order, tools: Tools, *, force: bool) -> list[Recorded]:
    """Record the request for each partition.

    Raises WrongRequestError, FlowRunsError unless `force`, and what the cluster answers.
    """
    partitions = _partitions(order, tools.source)
    tools.ledger.open(TIMEOUT_S)
    if not force:
        _must_rest(order.flow, tools)
    positions = {ids.TopicPartition(order.topic, number): order.position for number in partitions}
    known = era_requests.record(positions, tools.ledger, now=tools.clock, new_id=tools.new_id)
    return [
        Recorded(partition=name, position=order.position, known=known.partition(name))
        for name in positions
    ]


def _partitions(order: Order, source: admin.Admin) -> tuple[int, ...]:
    flow, topic = order.flow, order.topic
    described = source.describe_topics([topic], TIMEOUT_S)
    failure = described.first_failure()
    if isinstance(failure, kafka_errors.TopicMissingError):
        mirrored = [
            name for name in source.list_topics(TIMEOUT_S) if flow.should_replicate_topic(name)
        ]
        nearest = problems.nearest(topic, mirrored)
        hint = f"; did you mean '{nearest}'?" if nearest is not None else ""
        raise WrongRequestError(f"cluster {flow.source} has no topic '{topic}'{hint}")
    if failure is not None:
        raise failure
    if not flow.should_replicate_topic(topic):
        raise WrongRequestError(
            f"flow {flow.name} does not mirror topic '{topic}': see topics and topics.exclude"
        )
    count = described.done[topic].partitions
    beyond = [number for number in order.partitions if number >= count]
    if beyond:
        raise WrongRequestError(
            f"topic '{topic}' of cluster {flow.source} has no partition {beyond[0]}; "
            f"it has 0 to {count - 1}"
        )
    return tuple(sorted(set(order.partitions))) or tuple(range(count))


def _must_rest(flow: flows.Flow, tools: Tools) -> None:
    before = _traces(tools.ledger.catch_up())
    tools.pause(WATCH_S)
    after = _traces(tools.ledger.catch_up())
    moved = sorted(name for name, trace in after.items() if before.get(name) != trace)
    if moved:
        more = f" and {len(moved) - 1} more" if len(moved) > 1 else ""
        raise FlowRunsError(
            f"flow {flow.name} runs: {moved[0]}{more} moved within {WATCH_S:g} s. Stop its mm2 run "
            "first (or give --force, and the request counts when the flow is started again)"
        )


def _traces(known: offset_map.OffsetMap) -> Mapping[ids.TopicPartition, object]:
    """What a running flow changes."""
    found = {}
    for name in known.partitions():
        one = known.partition(name)
        found[name] = (one.anchor, one.newest_era, len(one.producers))
    return found
