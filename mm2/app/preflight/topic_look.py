"""Looks at the topics of a flow: those it mirrors, their mirrors, and those it keeps for itself.

What is missing is tried to be made, as far as brokers try it without doing it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline, errors
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app.looks import sides
from mm2.app.preflight import flow_rights, own_topics
from mm2.cluster import admin, kafka_admin
from mm2.connectors.topics import mirror_topics
from mm2.core import commands
from mm2.core.preflight import findings, mirrors, replication_factors, rights, state_topics
from mm2.core.topics import handout

_CLEANUP = "cleanup.policy"
_ANSWERS = 6
"""So many answers it takes to foresee what mirrors need, one after the other."""
_COMPACTED = {_CLEANUP: "compact"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a look needs. `brokers`: how many answer, by alias. `causes`: where the flow's
    replication factors come from."""

    both: sides.Sides
    accesses: Mapping[rights.Client, kafka_access.Access]
    operator: commands.Operator
    brokers: Mapping[str, int]
    causes: own_topics.FactorCauses
    clock: base_clock.Clock
    timeout_s: float


class TopicLook:
    """One thread. `mirrored`: topics of the source that the flow mirrors, as far as they were
    seen; `tried`: whether what is missing may be made. `default_factor`: how many replicas the
    target's brokers give topics of which nobody says it, None while that is not known."""

    def __init__(self, around: Around) -> None:
        self._around = around
        self._flow = around.both.flow
        self.mirrored: tuple[str, ...] = ()
        self.tried: dict[tuple[rights.Resource, str], bool] = {}
        self.default_factor: int | None = None
        self._too_many: list[replication_factors.Wanted] = []

    def of_mirrors(self, default_retention_ms: int | None) -> Iterator[findings.Finding]:
        """Raises `RetriableError` and `FatalError` where a cluster tells nothing at all."""
        around, flow = self._around, self._flow
        source, target = around.both.source.admin, around.both.target.admin
        listed = source.list_topics(around.timeout_s)
        wanted = frozenset(filter(flow.should_replicate_topic, listed))
        clashes = handout.clashes(wanted, flow.remote_topic)
        self.mirrored = tuple(sorted(wanted.difference(*clashes.values())))
        looks = mirror_topics.MirrorTopics(
            flow,
            source=source,
            target=target,
            now=around.clock,
            pause=lambda _: True,
            stopped=lambda: False,
            operator=around.operator,
        )
        longest_s = _ANSWERS * around.timeout_s
        end = deadline.Deadline.after(longest_s, now_s=around.clock.now_s())
        seen = looks.foresee(self.mirrored, end)
        self._fits(flow.target, "", flow.replication_factor, own_topics.FACTOR, internal=False)
        fitting = [
            each
            for each in mirror_topics.to_create(seen.planned)
            if self._fits(
                flow.target, each.name, each.replication_factor, own_topics.FACTOR, internal=False
            )
        ]
        creating = self._try_to_create(target, rights.Client.TARGET_ADMIN, fitting)
        yield from mirrors.judge(
            mirrors.Mirrors(
                flow=flow,
                source=seen.source.done,
                there=seen.there.done,
                planned=seen.planned,
                leaderless={
                    **_leaderless(source.describe_topics(self.mirrored, around.timeout_s)),
                    **_leaderless(target.describe_topics(seen.there.done, around.timeout_s)),
                },
                unseen=_told({**seen.source.failed, **seen.there.failed}),
                refused=_told(creating.failed),
                clashes=clashes,
                default_retention_ms=default_retention_ms,
            ),
            around.operator,
        )

    def of_own(self, own: Sequence[own_topics.OwnTopic]) -> Iterator[findings.Finding]:
        """Raises as `of_mirrors`."""
        for maker in dict.fromkeys(each.maker for each in own):
            wanted = {each.wanted.name: each.wanted for each in own if each.maker is maker}
            with self._admin(maker) as asked:
                yield from self._of_maker(maker, asked, wanted)

    def _of_maker(
        self,
        maker: rights.Client,
        asked: admin.Admin,
        wanted: Mapping[str, state_topics.StateTopic],
    ) -> Iterator[findings.Finding]:
        around, flow = self._around, self._flow
        tool = around.operator.source if maker.on_source else around.operator.target
        alias = flow.source if maker.on_source else flow.target
        described = asked.describe_topics(list(wanted), around.timeout_s)
        configs = asked.topic_configs(list(described.done), around.timeout_s).done
        for name, topic in sorted(described.done.items()):
            entry = configs.get(name, {}).get(_CLEANUP)
            seen = state_topics.Seen(
                partitions=topic.partitions,
                cleanup_policy=None if entry is None else entry.value,
            )
            yield from state_topics.judge(flow.name, wanted[name], seen, tool=tool)
        missing = {
            name: wanted[name]
            for name, error in described.failed.items()
            if isinstance(error, (kafka_errors.TopicMissingError, kafka_errors.NotAuthorizedError))
        }
        fitting = [
            each
            for each in missing.values()
            if self._fits(alias, each.name, each.replication_factor, each.factor_key)
        ]
        creating = self._try_to_create(asked, maker, list(map(_new, fitting)))
        yield from state_topics.refused(flow.name, _told(creating.failed))

    def of_factors(self) -> Iterator[findings.Finding]:
        """Of all topics that were looked at before."""
        yield from replication_factors.judge(self._flow.name, self._too_many, self._around.brokers)

    def _fits(
        self, alias: str, topic: str, factor: int | None, key: str, *, internal: bool = True
    ) -> bool:
        """Has the cluster as many brokers as the missing topic wants replicas? If not, that is
        noted. `factor` below 1 or None: as the brokers have it."""
        cause = None
        if factor is None or factor < 1:
            factor = (self.default_factor if alias == self._flow.target else None) or 1
            cause = replication_factors.of_brokers(alias)
        if factor <= self._around.brokers[alias]:
            return True
        wanted = replication_factors.Wanted(
            topic=topic,
            cluster=alias,
            factor=factor,
            cause=cause or self._around.causes.cause(key),
            is_internal=internal,
        )
        self._too_many.append(wanted)
        return False

    def _try_to_create(
        self, asked: admin.Admin, maker: rights.Client, topics: Sequence[admin.NewTopic]
    ) -> admin.PerTopic[None]:
        answer = asked.create_topics(topics, self._around.timeout_s, only_try=True)
        for name in answer.done:
            self._note(maker, name, allowed=True)
        for name, error in answer.failed.items():
            self._note(maker, name, allowed=not isinstance(error, kafka_errors.NotAuthorizedError))
        return answer

    def _note(self, maker: rights.Client, name: str, *, allowed: bool) -> None:
        resource = rights.Resource(client=maker, kind=rights.Kind.TOPIC, name=name)
        self.tried[resource, "CREATE"] = allowed

    @contextlib.contextmanager
    def _admin(self, maker: rights.Client) -> Iterator[admin.Admin]:
        around = self._around
        if maker is rights.Client.SOURCE_ADMIN:
            yield around.both.source.admin
        elif maker is rights.Client.TARGET_ADMIN:
            yield around.both.target.admin
        else:
            made = kafka_admin.KafkaAdmin(
                around.accesses[maker], client_id=flow_rights.CLIENT_ID, clock=around.clock
            )
            with contextlib.closing(made):
                yield made


def _new(topic: state_topics.StateTopic) -> admin.NewTopic:
    factor = topic.replication_factor
    return admin.NewTopic(
        name=topic.name,
        partitions=topic.partitions or 1,
        replication_factor=None if factor < 0 else factor,
        configs=_COMPACTED,
    )


def _leaderless(described: admin.PerTopic[admin.TopicDescription]) -> dict[str, list[int]]:
    found = {
        name: [number for number, leader in enumerate(topic.leaders) if leader is None]
        for name, topic in described.done.items()
    }
    return {name: numbers for name, numbers in found.items() if numbers}


def _told(failed: Mapping[str, errors.ConnectError]) -> dict[str, str]:
    """But for missing rights, which are told by themselves, and what was made meanwhile."""
    known = (kafka_errors.NotAuthorizedError, kafka_errors.TopicExistsError)
    return {name: str(error) for name, error in failed.items() if not isinstance(error, known)}
