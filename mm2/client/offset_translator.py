"""Where offsets of one cluster are on the other: single ones, whole groups, and times.

The cluster mirrored to is asked, and the source where it can be reached; `flow_link` says how.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from connect_runtime.base import clock as base_clock
from connect_runtime.base import ids
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.system import clock as system_clock
from mm2.client import checkpoint_reading, clusters, flow_link, outcomes, settings
from mm2.core.offsets import checkpoints, log_ends

TIMEOUT_S = 60.0


class OffsetTranslator:
    """Use it in `with`, or `close` it. One thread at a time asks.

    "Forwards" is from the cluster `remote_alias` to the cluster asked, "back" the other way. Every
    question raises `RetriableError` or `FatalError` where the cluster asked does not answer; a
    source that does not answer is done without, and the answer says so.
    """

    def __init__(
        self,
        link: flow_link.Link,
        *,
        timeout_s: float = TIMEOUT_S,
        clock: base_clock.Clock | None = None,
    ) -> None:
        """`timeout_s` bounds each question. Nothing is asked of the clusters yet."""
        self._link = link
        self._timeout_s = timeout_s
        self._clock = clock or system_clock.SystemClock()
        self._offsets = flow_link.LinkOffsets(link, clock=self._clock)

    @classmethod
    def connect(
        cls,
        properties: settings.Properties,
        remote_alias: str,
        *,
        source_properties: settings.Properties | None = None,
        alias: str = "",
        timeout_s: float = TIMEOUT_S,
    ) -> OffsetTranslator:
        """`properties` of the cluster mirrored to, as `MirrorClient` takes them, and
        `offset-syncs.topic.location` where the flow has it at its target.

        `source_properties`: of the cluster `remote_alias`. `alias`: what the flow calls the cluster
        mirrored to. Raises `FatalError` for wrong properties.
        """
        clock = system_clock.SystemClock()
        link = flow_link.Link(
            here=clusters.kafka(properties, clock=clock),
            there=None
            if source_properties is None
            else clusters.kafka(source_properties, clock=clock),
            policy=settings.policy({"source.cluster.alias": remote_alias, **properties}),
            remote_alias=remote_alias,
            alias=alias,
            syncs_on_source=settings.syncs_on_source(properties),
        )
        return cls(link, timeout_s=timeout_s, clock=clock)

    def __enter__(self) -> OffsetTranslator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._offsets.close()

    @property
    def silent(self) -> str:
        """Why the source did not answer, the last time that it was asked; "" where it did."""
        return self._offsets.silent

    def translate(self, topic: str, partition: int, offset: int) -> outcomes.Outcome:
        """`topic` by its name on the source; `offset` is what a group there goes on from."""
        asked = ids.TopicPartition(topic, partition)
        outcome = self._offsets.forwards(self._timeout_s)(asked, offset)
        waits = [asked] if isinstance(outcome, outcomes.NotReady) else []
        return _within(outcome, offset, self._source_ends(waits).get(asked))

    def translate_back(self, topic: str, partition: int, offset: int) -> outcomes.Outcome:
        """`topic` by its name on the cluster asked; the outcome's offset is one of the source.

        What others wrote here has no place there: who stands in it goes on at what was copied next.
        """
        asked = ids.TopicPartition(topic, partition)
        outcome = self._offsets.backwards(self._timeout_s)(asked, offset)
        ends = self._link.here.logs.ends({asked}, self._timeout_s).done
        return _within(outcome, offset, ends.get(asked))

    def translate_timestamp(self, topic: str, partition: int, timestamp_ms: int) -> outcomes.Place:
        """Where a group goes on that starts at the first record not older than `timestamp_ms`, UTC
        milliseconds; behind the last one where all are older.

        By the source's log. Where that does not answer, by the mirror's: nothing is missed, but
        nobody knows how much is read again.
        """
        asked = ids.TopicPartition(topic, partition)
        at = self._offsets.ask_source(
            lambda there, left_s: _offset_at(there, asked, timestamp_ms, timeout_s=left_s),
            self._timeout_s,
        )
        if at is not None:
            outcome = self._offsets.forwards(self._timeout_s)(asked, at)
            return outcomes.Place(
                partition=asked, offset=at, outcome=outcome, basis=outcomes.Basis.TIME
            )
        outcome = self._at_time_here(self._offsets.on_target(asked), timestamp_ms)
        return outcomes.Place(
            partition=asked, offset=None, outcome=outcome, basis=outcomes.Basis.TIME_THERE
        )

    def translate_timestamp_back(
        self, topic: str, partition: int, timestamp_ms: int
    ) -> outcomes.Place:
        """The same of the cluster asked: where such a group goes on on the source."""
        asked = ids.TopicPartition(topic, partition)
        at = _offset_at(self._link.here, asked, timestamp_ms, timeout_s=self._timeout_s)
        outcome = self._offsets.backwards(self._timeout_s)(asked, at)
        return outcomes.Place(
            partition=asked, offset=at, outcome=outcome, basis=outcomes.Basis.TIME
        )

    def translate_group(self, group: str) -> outcomes.GroupPlaces:
        """Where `group` of the source goes on here: by what it has committed, where the source
        answers, else by its last checkpoints.

        Raises `TopicMissingError` where there are no checkpoints either.
        """
        committed = self._offsets.ask_source(
            lambda there, left_s: _positions(there, group, left_s), self._timeout_s
        )
        if committed is None:
            return self._checkpointed(group)
        translate = self._offsets.forwards(self._timeout_s)
        found = _of_group(group, committed, translate)
        ends = self._source_ends(
            each.partition for each in found.places if isinstance(each.outcome, outcomes.NotReady)
        )
        return _group_within(found, ends)

    def translate_group_back(self, group: str) -> outcomes.GroupPlaces:
        """Where `group` of the cluster asked goes on on the source, by what it has committed."""
        committed = _positions(self._link.here, group, self._timeout_s)
        found = _of_group(group, committed, self._offsets.backwards(self._timeout_s))
        partitions = {each.partition for each in found.places}
        return _group_within(found, self._link.here.logs.ends(partitions, self._timeout_s).done)

    def _source_ends(
        self, partitions: Iterable[ids.TopicPartition]
    ) -> Mapping[ids.TopicPartition, log_ends.Ends]:
        """Of those that the source tells of; it may not answer, or refuse us."""
        asked = set(partitions)
        if not asked:
            return {}
        found = self._offsets.ask_source(
            lambda there, left_s: there.logs.ends(asked, left_s), self._timeout_s
        )
        return {} if found is None else found.done

    def _at_time_here(
        self, mirror: ids.TopicPartition, timestamp_ms: int
    ) -> outcomes.Earlier | outcomes.Unknown:
        try:
            at = _offset_at(self._link.here, mirror, timestamp_ms, timeout_s=self._timeout_s)
        except kafka_errors.TopicMissingError:
            return outcomes.Unknown(partition=mirror, why="there is no such partition")
        return outcomes.Earlier(partition=mirror, offset=at, again_max=None)

    def _checkpointed(self, group: str) -> outcomes.GroupPlaces:
        """By the map at the checkpoint's source offset, or, where that knows nothing, at its own
        offset here. It is `Earlier` in any case: what the group has read since nobody knows."""
        link = self._link
        times = checkpoint_reading.WrittenTimes()
        table = checkpoint_reading.read(
            link.here.topics,
            link.policy,
            link.remote_alias,
            takes_group=group.__eq__,
            clock=self._clock,
            timeout_s=self._timeout_s,
            noted=times.note,
        )
        translate = self._offsets.forwards(self._timeout_s)
        places = []
        for place, point in sorted(table.group(group).items()):
            partition = self._offsets.on_source(place)
            outcome = translate(partition, point.upstream)
            at = outcomes.offset_there(outcome)
            there = place if at is None else outcome.partition
            places.append(
                outcomes.Place(
                    partition=partition,
                    offset=point.upstream,
                    outcome=outcomes.Earlier(
                        partition=there,
                        offset=point.downstream if at is None else at,
                        again_max=None,
                    ),
                    basis=outcomes.Basis.CHECKPOINT,
                    metadata=point.metadata,
                    written_ms=times.of(group).get(place),
                )
            )
        return outcomes.GroupPlaces(
            group=group,
            basis=outcomes.Basis.CHECKPOINT,
            places=tuple(places),
            silent=self._offsets.silent,
        )


def _of_group(
    group: str, positions: checkpoints.Positions, translate: flow_link.Translate
) -> outcomes.GroupPlaces:
    return outcomes.GroupPlaces(
        group=group,
        basis=outcomes.Basis.COMMITTED,
        places=tuple(
            outcomes.Place(
                partition=partition,
                offset=position.offset,
                outcome=translate(partition, position.offset),
                basis=outcomes.Basis.COMMITTED,
                metadata=position.metadata,
            )
            for partition, position in sorted(positions.items())
            if position is not None
        ),
    )


def _within(outcome: outcomes.Outcome, offset: int, ends: log_ends.Ends | None) -> outcomes.Outcome:
    """`ends`: of the log that `offset` is of, None where unknown."""
    if ends is None or offset <= ends.high_watermark:
        return outcome
    return outcomes.BeyondEnd(partition=outcome.partition, end=ends.high_watermark)


def _group_within(
    found: outcomes.GroupPlaces, ends: Mapping[ids.TopicPartition, log_ends.Ends]
) -> outcomes.GroupPlaces:
    places = tuple(
        dataclasses.replace(
            each, outcome=_within(each.outcome, each.offset or 0, ends.get(each.partition))
        )
        for each in found.places
    )
    return dataclasses.replace(found, places=places)


def _positions(cluster: clusters.Cluster, group: str, timeout_s: float) -> checkpoints.Positions:
    found = cluster.groups.positions([group], timeout_s)
    failure = found.first_failure()
    if failure is not None:
        raise failure
    return found.done[group]


def _offset_at(
    cluster: clusters.Cluster, partition: ids.TopicPartition, timestamp_ms: int, *, timeout_s: float
) -> int:
    """The first not older; the end of what readers may see where there is none."""
    found = cluster.logs.offsets_at({partition: timestamp_ms}, timeout_s)
    for error in found.failed.values():
        raise error
    at = found.done[partition]
    if at is not None:
        return at
    ends = cluster.logs.ends({partition}, timeout_s)
    for error in ends.failed.values():
        raise error
    return ends.done[partition].end
