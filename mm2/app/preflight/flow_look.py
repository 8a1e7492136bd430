"""Looks at one flow whose clusters answer: rights, topics, settings, and what delivery follows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app import connections, effective_config, flow_plan, probe
from mm2.app.looks import sides
from mm2.app.preflight import delivery, flow_rights, own_topics, topic_look
from mm2.app.settings import settings as app_settings
from mm2.core import flows
from mm2.core.groups import relevant
from mm2.core.preflight import findings, limits, rights

_LOG = logging.getLogger(__name__)
_OF_ALL = frozenset({findings.Word.RIGHTS, findings.Word.TOPICS})
_OF_MIRRORS = frozenset({findings.Word.PROTOCOL, findings.Word.SETTINGS})
_GROUPS_ASKED_MAX = 20
_FACTOR_REFUSED = "INVALID_REPLICATION_FACTOR"


def words(plan: flow_plan.FlowPlan) -> frozenset[findings.Word]:
    """What is looked at of a flow; one for heartbeats alone mirrors nothing."""
    return _OF_ALL | _OF_MIRRORS if plan.shown else _OF_ALL


class FlowLook:
    """One thread. `timeout_s`: how long a cluster may take for one answer."""

    def __init__(
        self,
        settings: app_settings.Settings,
        flow: flows.Flow,
        plan: flow_plan.FlowPlan,
        *,
        effective: effective_config.FlowConfig,
        clock: base_clock.Clock,
        random: Random,
        timeout_s: float,
    ) -> None:
        self._causes = own_topics.FactorCauses(effective, file=settings.file, target=flow.target)
        self._settings = settings
        self._flow = flow
        self._plan = plan
        self._clock = clock
        self._random = random
        self._timeout_s = timeout_s
        self._operator = connections.operator(settings, flow)
        self._accesses = flow_rights.accesses(settings, flow, plan)
        self._found: list[findings.Finding] = []
        self._configs: limits.Configs | None = None

    def look(self, brokers: Mapping[str, int]) -> Sequence[findings.Finding]:
        """All that is found; `brokers`: how many answer, by alias."""
        config = own_topics.configured(self._settings, self._plan)
        own = own_topics.of(self._plan, config)
        with sides.Sides(self._settings, self._flow, purpose="check", clock=self._clock) as both:
            topics = topic_look.TopicLook(
                topic_look.Around(
                    both=both,
                    accesses=self._accesses,
                    operator=self._operator,
                    brokers=brokers,
                    causes=self._causes,
                    clock=self._clock,
                    timeout_s=self._timeout_s,
                )
            )
            if self._plan.shown:
                self._step(findings.Word.SETTINGS, lambda: self._limits(both, brokers))
                kept_ms = limits.retention_ms(self._configs)
                topics.default_factor = limits.default_factor(self._configs)
                self._step(findings.Word.TOPICS, lambda: topics.of_mirrors(kept_ms))
            self._step(findings.Word.TOPICS, lambda: topics.of_own(own))
            self._step(findings.Word.SETTINGS, topics.of_factors)
            self._step(findings.Word.RIGHTS, lambda: self._rights(both, config, own, topics=topics))
        if self._plan.shown:
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

    def _limits(self, both: sides.Sides, brokers: Mapping[str, int]) -> Iterator[findings.Finding]:
        flow, admin = self._flow, both.target.admin
        source_id = both.source.admin.cluster_id(self._timeout_s)
        target_id = admin.cluster_id(self._timeout_s)
        yield from limits.same_cluster(
            flow.name, source_id, target_id, renames=flow.policy.renames_topics
        )
        self._configs = admin.broker_configs(limits.BROKER_SETTINGS, self._timeout_s)
        target = limits.Target(
            alias=flow.target,
            brokers=brokers[flow.target],
            configs=self._configs,
            topics=admin.list_topics(self._timeout_s),
            factor=flow.replication_factor,
            session_ms=round(self._plan.worker.membership.session_timeout_s * 1000),
        )
        yield from limits.of_target(flow.name, target)

    def _rights(
        self,
        both: sides.Sides,
        config: own_topics.Configured,
        own: Sequence[own_topics.OwnTopic],
        *,
        topics: topic_look.TopicLook,
    ) -> Iterator[findings.Finding]:
        flow, mirrors, checkpoint = self._flow, self._plan.shown, config.checkpoint
        groups = self._groups(both, config) if mirrors else None
        syncs = checkpoint is not None and checkpoint.sync_groups_interval_s is not None
        wanted = rights.Wanted(
            topics=topics.mirrored,
            mirrors=tuple(map(flow.remote_topic, topics.mirrored)),
            own=tuple(each.need for each in own if each.written),
            worker_group=self._plan.worker.membership.group_id,
            read_too=own_topics.read_too(flow) if mirrors else (),
            seen_groups=None if groups is None else bool(groups),
            synced_groups=(groups or ())[:_GROUPS_ASKED_MAX] if syncs else (),
            sync_acls=mirrors and config.source.sync_acls_interval_s is not None,
            syncs_configs=flow.syncs_topic_configs,
            reads_brokers=mirrors,
        )
        needed = rights.needs(wanted)
        held = flow_rights.held(
            self._accesses, needed, clock=self._clock, timeout_s=self._timeout_s
        )
        cluster = rights.Resource(client=rights.Client.TARGET_ADMIN, kind=rights.Kind.CLUSTER)
        tried = {**topics.tried, (cluster, "DESCRIBE_CONFIGS"): self._configs is not None}
        yield from rights.missing(
            flow.name,
            needed,
            held,
            tried=tried,
            operators=flow_rights.of_operators(self._accesses),
        )

    def _groups(self, both: sides.Sides, config: own_topics.Configured) -> tuple[str, ...] | None:
        """Those of the source that get checkpoints; None: none are to."""
        checkpoint = config.checkpoint
        if checkpoint is None:
            return None
        listed = both.source.groups.list_groups(self._timeout_s)
        filtered = relevant.filtered(checkpoint.flow.groups, (each.group for each in listed))
        for name, why in filtered.unmatched.items():
            _LOG.warning("group %.80s is not followed: %s", name, why)
        return filtered.taken

    def _delivery(self) -> Iterator[findings.Finding]:
        found = probe.probe(self._settings, self._flow, clock=self._clock, random=self._random)
        too_many = any(each.code == "replication-factor" for each in self._found)
        for each in delivery.judge(found, self._operator.target):
            if not (too_many and _FACTOR_REFUSED in each.text):  # told already, with its cause
                yield each


def _word(error: errors.ConnectError, word: findings.Word) -> findings.Word:
    """What an error is about, where it tells."""
    match error:
        case kafka_errors.NotAuthorizedError():
            return findings.Word.RIGHTS
        case kafka_errors.UnsupportedError():
            return findings.Word.PROTOCOL
        case kafka_errors.AuthenticationError():
            return findings.Word.AUTH
        case kafka_errors.UnreachableError():
            return findings.Word.NETWORK
        case _:
            return word
