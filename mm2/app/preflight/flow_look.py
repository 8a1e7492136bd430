"""Looks at one flow whose clusters answer: rights, topics, settings, and what delivery follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline, errors
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app import connections, flow_plan, probe
from mm2.app.looks import sides
from mm2.app.preflight import delivery, flow_rights, own_topics
from mm2.app.settings import settings as app_settings
from mm2.connectors import mirror_topics
from mm2.core import flows
from mm2.core.preflight import findings, limits, mirrors, rights, state_topics
from mm2.core.topics import handout

WORDS = frozenset(
    {
        findings.Word.PROTOCOL,
        findings.Word.RIGHTS,
        findings.Word.TOPICS,
        findings.Word.SETTINGS,
    }
)
_CLEANUP = "cleanup.policy"
_GROUPS_ASKED_MAX = 20


class FlowLook:
    """One thread. `timeout_s`: how long a cluster may take for one answer."""

    def __init__(
        self,
        settings: app_settings.Settings,
        flow: flows.Flow,
        plan: flow_plan.FlowPlan,
        *,
        clock: base_clock.Clock,
        random: Random,
        timeout_s: float,
    ) -> None:
        self._settings = settings
        self._flow = flow
        self._plan = plan
        self._clock = clock
        self._random = random
        self._timeout_s = timeout_s
        self._found: list[findings.Finding] = []
        self._topics: tuple[str, ...] = ()
        self._seen: mirror_topics.Foreseen | None = None

    def look(self, brokers: int) -> Sequence[findings.Finding]:
        """All that is found; `brokers` of the target answered."""
        config = own_topics.configured(self._settings, self._plan)
        own = own_topics.of(self._plan, config)
        with sides.Sides(self._settings, self._flow, purpose="check", clock=self._clock) as both:
            self._step(findings.Word.TOPICS, lambda: self._see(both))
            self._step(findings.Word.RIGHTS, lambda: self._rights(both, config, own))
            self._step(findings.Word.TOPICS, lambda: self._own(both, own, brokers))
            self._step(findings.Word.SETTINGS, lambda: self._limits(both, brokers))
        self._step(findings.Word.PROTOCOL, self._delivery)
        return self._found

    def _step(self, word: findings.Word, look: Callable[[], Iterable[findings.Finding]]) -> None:
        """What keeps a look from seeing anything is a finding, too; others go on."""
        try:
            self._found.extend(look())
        except errors.ConnectError as error:
            self._found.append(
                findings.Finding(
                    subject=self._flow.name,
                    word=_word(error, word),
                    weight=findings.Weight.FAILED,
                    code="look-refused"
                    if isinstance(error, kafka_errors.NotAuthorizedError)
                    else "look-failed",
                    text=str(error),
                    means="what comes of this part of the flow is not known",
                    mend="mend what the message names, and check again",
                )
            )

    def _end(self) -> deadline.Deadline:
        return deadline.Deadline.after(self._timeout_s, now_s=self._clock.now_s())

    def _see(self, both: sides.Sides) -> Iterator[findings.Finding]:
        """Which topics there are, and what would be done about their mirrors."""
        flow = self._flow
        operator = connections.operator(self._settings, flow)
        listed = both.source.admin.list_topics(self._timeout_s)
        wanted = frozenset(filter(flow.should_replicate_topic, listed))
        clashes = handout.clashes(wanted, flow.remote_topic)
        self._topics = tuple(sorted(wanted.difference(*clashes.values())))
        looks = mirror_topics.MirrorTopics(
            flow,
            source=both.source.admin,
            target=both.target.admin,
            now=self._clock,
            pause=lambda _: True,
            stopped=lambda: False,
            operator=operator,
        )
        seen = self._seen = looks.foresee(self._topics, self._end())
        creating = both.target.admin.create_topics(
            mirror_topics.to_create(seen.planned), self._timeout_s, only_try=True
        )
        configs = both.target.admin.broker_configs(limits.BROKER_SETTINGS, self._timeout_s)
        yield from mirrors.judge(
            mirrors.Mirrors(
                flow=flow,
                source=seen.source.done,
                there=seen.there.done,
                planned=seen.planned,
                unseen=_told({**seen.source.failed, **seen.there.failed}),
                refused=_told(creating.failed),
                clashes=clashes,
                default_retention_ms=limits.retention_ms(configs),
            ),
            operator,
        )

    def _rights(
        self,
        both: sides.Sides,
        config: own_topics.Configured,
        own: Sequence[own_topics.OwnTopic],
    ) -> Iterator[findings.Finding]:
        flow, checkpoint = self._flow, config.checkpoint
        synced: tuple[str, ...] = ()
        if checkpoint is not None and checkpoint.sync_groups_interval_s is not None:
            groups = both.source.groups.list_groups(self._timeout_s)
            names = sorted(
                each.group for each in groups if checkpoint.flow.groups.takes(each.group)
            )
            synced = tuple(names[:_GROUPS_ASKED_MAX])
        wanted = rights.Wanted(
            topics=self._topics,
            mirrors=tuple(map(flow.remote_topic, self._topics)),
            own=tuple(each.need for each in own),
            worker_group=self._plan.ends.group,
            read_too=own_topics.read_too(flow),
            synced_groups=synced,
            sync_acls=config.source.sync_acls_interval_s is not None,
            syncs_configs=flow.syncs_topic_configs,
        )
        needed = rights.needs(wanted)
        found = flow_rights.accesses(self._settings, flow, self._plan)
        held = flow_rights.held(found, needed, clock=self._clock, timeout_s=self._timeout_s)
        yield from rights.missing(
            flow.name, needed, held, operators=flow_rights.of_operators(found)
        )

    def _own(
        self, both: sides.Sides, own: Sequence[own_topics.OwnTopic], brokers: int
    ) -> Iterator[findings.Finding]:
        operator = connections.operator(self._settings, self._flow)
        for on_source in (True, False):
            wanted = {each.wanted.name: each.wanted for each in own if each.on_source is on_source}
            side = both.source if on_source else both.target
            tool = operator.source if on_source else operator.target
            described = side.admin.describe_topics(list(wanted), self._timeout_s)
            configs = side.admin.topic_configs(list(described.done), self._timeout_s).done
            for name, topic in sorted(described.done.items()):
                entry = configs.get(name, {}).get(_CLEANUP)
                seen = state_topics.Seen(
                    partitions=topic.partitions,
                    cleanup_policy=None if entry is None else entry.value,
                )
                yield from state_topics.judge(self._flow.name, wanted[name], seen, tool=tool)
            missing = {
                name: wanted[name]
                for name, error in described.failed.items()
                if isinstance(error, kafka_errors.TopicMissingError)
            }
            if not on_source:
                yield from state_topics.factors(self._flow.name, missing, brokers)

    def _limits(self, both: sides.Sides, brokers: int) -> Iterator[findings.Finding]:
        flow, admin = self._flow, both.target.admin
        source_id = both.source.admin.cluster_id(self._timeout_s)
        target_id = admin.cluster_id(self._timeout_s)
        yield from limits.same_cluster(
            flow.name, source_id, target_id, renames=flow.policy.renames_topics
        )
        target = limits.Target(
            alias=flow.target,
            brokers=brokers,
            configs=admin.broker_configs(limits.BROKER_SETTINGS, self._timeout_s),
            topics=admin.list_topics(self._timeout_s),
            factor=flow.replication_factor,
            session_ms=round(self._plan.worker.membership.session_timeout_s * 1000),
        )
        yield from limits.of_target(flow.name, target)

    def _delivery(self) -> Iterator[findings.Finding]:
        found = probe.probe(self._settings, self._flow, clock=self._clock, random=self._random)
        operator = connections.operator(self._settings, self._flow)
        yield from delivery.judge(found, operator.target)


def _told(failed: Mapping[str, errors.ConnectError]) -> dict[str, str]:
    """But for missing rights, which are told by themselves, and what was made meanwhile."""
    known = (kafka_errors.NotAuthorizedError, kafka_errors.TopicExistsError)
    return {name: str(error) for name, error in failed.items() if not isinstance(error, known)}


def _word(error: errors.ConnectError, word: findings.Word) -> findings.Word:
    """What an error is about, where it tells."""
    match error:
        case kafka_errors.NotAuthorizedError():
            return findings.Word.RIGHTS
        case kafka_errors.UnsupportedError():
            return findings.Word.PROTOCOL
        case _:
            return word
