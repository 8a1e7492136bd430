"""Adapter of `groups.Groups`, over connections of our own."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline, errors, ids
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import group_calls, translate_errors
from connect_runtime.wire.codec import failures, group_requests, messages, offset_fetch, targets
from mm2.cluster import errors as cluster_errors
from mm2.cluster import group_batches
from mm2.cluster import groups as port
from mm2.core.groups import relevant
from mm2.core.offsets import checkpoints, group_sync

T = TypeVar("T")
State = group_sync.GroupState

_STATES = {
    **dict.fromkeys(("Assigning", "CompletingRebalance", "PreparingRebalance"), State.ACTIVE),
    **dict.fromkeys(("Reconciling", "Stable"), State.ACTIVE),
    "Dead": State.ABSENT,
    "Empty": State.EMPTY,
}
_NOT_OF_THE_KIND = frozenset(
    {group_requests.GROUP_ID_NOT_FOUND, group_requests.UNSUPPORTED_VERSION}
)

_SILENCE = (
    failures.ConnectionFailed,
    failures.NodeUnknown,
    failures.RequestTimedOut,
    failures.TooManyCalls,
)
_UNSTABLE_OFFSET_COMMIT = 88
_ADVICE: Mapping[int, translate_errors.Advice] = {
    **dict.fromkeys(
        (25, 27, 68, 113),  # UNKNOWN_MEMBER_ID, …: to who is no member
        (cluster_errors.GroupInUseError, "the group has members, and stays as it is"),
    ),
    _UNSTABLE_OFFSET_COMMIT: (
        errors.RetriableError,
        "a transaction is open that has an offset of the group",
    ),
}


class KafkaGroups:
    """Implements `groups.Groups`. Connects when it is asked first."""

    def __init__(
        self,
        access: kafka_access.Access,
        *,
        client_id: str,
        clock: base_clock.Clock,
        gone: Callable[[], bool] = lambda: False,
    ) -> None:
        """Once `gone`, every call ends soon. Raises `FatalError` for settings that cannot be
        honoured."""
        self._where = access.where
        self._clock = clock
        self._calls = group_calls.GroupCalls(
            access.connection(client_id),
            clock=clock,
            rng=random.Random(),  # noqa: S311  # spreads waits, no secret
            where=access.where,
            advice=_ADVICE,
            gone=gone,
        )
        self._batches = group_batches.GroupBatches(self._calls, clock=clock)

    def list_groups(self, timeout_s: float) -> list[relevant.Listed]:
        """See `groups.Groups`; so for all below."""
        doing = f"listing groups on {self._where}"
        end = deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        cluster = group_calls.Question(
            to=targets.AnyNode(), message=messages.metadata(()), doing=doing
        )
        brokers = self._calls.ask(cluster, timeout_s).brokers
        answers = self._calls.ask_all(
            [
                group_calls.Question(
                    to=targets.Node(int(each.node_id)),
                    message=group_requests.listing(),
                    doing=f"{doing}, broker {each.node_id}",
                )
                for each in brokers
            ],
            end.left_s(self._clock.now_s()),
        )
        listed: list[relevant.Listed] = []
        for answer in answers:
            if isinstance(answer, errors.ConnectError):
                raise answer
            listed += map(_listed, answer.groups)
        return listed

    def states(
        self, groups: Collection[str], timeout_s: float
    ) -> port.PerGroup[group_sync.GroupState]:
        """Those of KIP-848 first: to a question about classic ones the others are dead."""
        end = deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        consumers = self._described(
            groups,
            group_requests.describe_consumer,
            timeout_s,
            fine=_NOT_OF_THE_KIND,
            read=_consumer_state,
        )
        older = [
            group
            for group, error in consumers.failed.items()
            if isinstance(error, failures.UnsupportedVersion)
        ]
        others = [group for group, state in consumers.done.items() if state is None]
        classic = self._described(
            [*older, *others],
            group_requests.describe_classic,
            end.left_s(self._clock.now_s()),
            fine=frozenset({group_requests.GROUP_ID_NOT_FOUND}),
            read=_classic_state,
        )
        known = {group: state for group, state in consumers.done.items() if state is not None}
        failed = {
            group: consumers.failed[group] for group in consumers.failed if group not in older
        }
        return port.PerGroup(done={**known, **classic.done}, failed={**failed, **classic.failed})

    def members(self, groups: Collection[str], timeout_s: float) -> port.PerGroup[tuple[str, ...]]:
        return self._described(
            groups,
            group_requests.describe_classic,
            timeout_s,
            fine=frozenset({group_requests.GROUP_ID_NOT_FOUND}),
            read=_hosts,
        )

    def assignors(self, groups: Collection[str], timeout_s: float) -> port.PerGroup[str]:
        return self._described(
            groups,
            group_requests.describe_classic,
            timeout_s,
            fine=frozenset({group_requests.GROUP_ID_NOT_FOUND}),
            read=lambda group: str(group.protocol_data),
        )

    def positions(
        self, groups: Collection[str], timeout_s: float, *, stable: bool = False
    ) -> port.PerGroup[checkpoints.Positions]:
        return self._fetched(groups, timeout_s, stable=stable, seen={})

    def share_partitions(
        self, groups: Collection[str], timeout_s: float
    ) -> port.PerGroup[frozenset[ids.TopicPartition]]:
        return self._each(
            groups,
            lambda name: _question(
                name,
                group_requests.share_offsets(name),
                doing="reading the offsets of share group",
                error=_of_share_group,
            ),
            timeout_s,
            read=_share_partitions,
        )

    def news(
        self, groups: Collection[str], timeout_s: float, *, seen: port.Seen
    ) -> port.PerGroup[checkpoints.Positions]:
        return self._fetched(groups, timeout_s, stable=False, seen=seen)

    def write(
        self, offsets: Mapping[str, port.Written], timeout_s: float
    ) -> port.PerGroup[port.Refused]:
        def question(group: str) -> group_calls.Question:
            given = {
                place: group_requests.Committed(each.offset, each.metadata)
                for place, each in offsets[group].items()
            }
            return _question(
                group,
                group_requests.commit(group, given),
                doing="changing offsets of group",
                error=_of_all,
                repeats=False,
            )

        found = self._each(
            [group for group in offsets if offsets[group]],
            question,
            timeout_s,
            read=group_requests.refused,
        )
        told = {
            group: {
                place: self._calls.refusal(code, f"changing the offset of group {group} in {place}")
                for place, code in codes.items()
            }
            for group, codes in found.done.items()
        }
        nothing: dict[str, port.Refused] = {group: {} for group in offsets if not offsets[group]}
        return port.PerGroup(done={**nothing, **told}, failed=found.failed)

    def close(self) -> None:
        self._calls.close()

    def _fetched(
        self, groups: Collection[str], timeout_s: float, *, stable: bool, seen: port.Seen
    ) -> port.PerGroup[checkpoints.Positions]:
        doing = "reading the offsets of group"
        end = deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        done: dict[str, checkpoints.Positions] = {}
        same: set[str] = set()
        data: dict[str, bytes] = {}
        for body in self._batches.ask(
            groups,
            lambda chunk: offset_fetch.fetch(chunk, stable=stable, seen=seen),
            timeout_s,
            doing=doing,
        ):
            same.update(body.same)
            for each in body.found:
                if each.code:
                    self._batches.forget([each.group])
                else:
                    done[each.group] = _positions(each.offsets)
                    data[each.group] = each.data
        alone = self._each(
            set(groups) - done.keys() - same,
            lambda name: _question(name, group_requests.fetch(name, stable=stable), doing=doing),
            end.left_s(self._clock.now_s()),
            read=lambda body: _positions(group_requests.fetched(body)),
            others=len(done) + len(same),
        )
        seen |= data  # not before: what is raised tells of nobody
        return port.PerGroup(done={**done, **alone.done}, failed=alone.failed)

    def _described(
        self,
        groups: Collection[str],
        message: Callable[..., messages.Message],
        timeout_s: float,
        *,
        fine: frozenset[int],
        read: Callable[[Any], T],
    ) -> port.PerGroup[T]:
        doing = "describing group"
        end = deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        done: dict[str, T] = {}
        for body in self._batches.ask(
            groups, lambda chunk: message(*chunk), timeout_s, doing=doing
        ):
            for each in body.groups:
                code = int(each.error_code)
                if code == 0 or code in fine:
                    done[str(each.group_id)] = read(each)
                else:
                    self._batches.forget([str(each.group_id)])
        alone = self._each(
            set(groups) - done.keys(),
            lambda name: _question(name, message(name), doing=doing, fine=fine),
            end.left_s(self._clock.now_s()),
            read=lambda body: read(body.groups[0]),
            others=len(done),
        )
        return port.PerGroup(done={**done, **alone.done}, failed=alone.failed)

    def _each(
        self,
        groups: Iterable[str],
        question: Callable[[str], group_calls.Question],
        timeout_s: float,
        *,
        read: Callable[[Any], T],
        others: int = 0,
    ) -> port.PerGroup[T]:
        """One by one. `others`: so many more were asked about, and answered."""
        names = sorted(set(groups))
        answers = self._calls.ask_all([question(group) for group in names], timeout_s)
        failed = {
            group: answer
            for group, answer in zip(names, answers, strict=True)
            if isinstance(answer, errors.ConnectError)
        }
        _check_cluster(failed, asked=len(names) + others)
        done = {
            group: read(answer)
            for group, answer in zip(names, answers, strict=True)
            if group not in failed
        }
        return port.PerGroup(done=done, failed=failed)


def _question(
    group: str, message: messages.Message, *, doing: str, **more: Any
) -> group_calls.Question:
    return group_calls.Question(
        to=targets.Coordinator(targets.GROUP, group),
        message=message,
        doing=f"{doing} {group}",
        **more,
    )


def _check_cluster(failed: Mapping[str, errors.ConnectError], *, asked: int) -> None:
    """Raises what concerns more than single groups: nothing got through, or we are refused."""
    for error in failed.values():
        if isinstance(error, failures.AuthenticationFailed):
            raise error
    silent = [error for error in failed.values() if isinstance(error, _SILENCE)]
    if silent and len(silent) == asked:
        raise silent[0]


def _listed(group: Any) -> relevant.Listed:
    return relevant.Listed(
        group=str(group.group_id),
        type=getattr(group, "group_type", ""),
        protocol=group.protocol_type,
    )


def _consumer_state(group: Any) -> group_sync.GroupState | None:
    """None: it is not of the new protocol."""
    if int(group.error_code) in _NOT_OF_THE_KIND:
        return None
    return _STATES.get(group.group_state, State.UNKNOWN)


def _classic_state(group: Any) -> group_sync.GroupState:
    state = State.ABSENT if int(group.error_code) else _STATES.get(group.group_state, State.UNKNOWN)
    if state is State.ABSENT or group.protocol_type in relevant.CONSUMER_PROTOCOLS:
        return state
    return State.FOREIGN


def _hosts(group: Any) -> tuple[str, ...]:
    return tuple(str(each.client_host).lstrip("/") for each in group.members)


def _positions(
    found: Mapping[ids.TopicPartition, group_requests.Committed],
) -> checkpoints.Positions:
    return {
        place: None
        if each.offset < 0
        else checkpoints.OffsetAndMetadata(offset=each.offset, metadata=each.metadata)
        for place, each in found.items()
    }


def _of_share_group(body: Any) -> int:
    """Also the code of a partition: without it nobody knows all that the group reads. Of several
    one that does not pass."""
    code = int(body.groups[0].error_code)
    if code:
        return 0 if code == group_requests.GROUP_ID_NOT_FOUND else code
    codes = {
        int(each.error_code) for topic in body.groups[0].topics for each in topic.partitions
    } - {0}
    return min(codes - group_requests.PASSING or codes, default=0)


def _share_partitions(body: Any) -> frozenset[ids.TopicPartition]:
    return frozenset(
        ids.TopicPartition(str(topic.topic_name), int(each.partition_index))
        for topic in body.groups[0].topics
        for each in topic.partitions
    )


def _of_all(body: Any) -> int:
    """The code that all partitions have, or one that passes; else some were taken."""
    codes = group_requests.refused(body)
    passing = group_requests.PASSING.intersection(codes.values())
    if passing:
        return min(passing)
    partitions = sum(len(topic.partitions) for topic in body.topics)
    same = len(codes) == partitions and len(set(codes.values())) == 1
    return next(iter(codes.values())) if same else 0
