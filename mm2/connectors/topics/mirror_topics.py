"""Brings a flow's mirror topics about: observes both sides, creates, grows, and waits for it.

What may pass by itself is tried again for a while, so that one failing topic does not wait for the
next look.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from connect_runtime.base import clock, deadline, errors
from mm2.cluster import admin
from mm2.connectors.topics import mirror_findings
from mm2.core import commands, flows, naming
from mm2.core.topics import plan as topic_plan
from mm2.core.topics import snapshot

SPREADS_S = 10.0
"""So long brokers may take to learn of what the controller has acknowledged."""
AGAIN_S = 20.0
"""So long a topic's passing failure holds up the others' copies, at most."""
_LOOK_S = 0.1
_ROUND_S = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """Topics of the source, by name, their mirrors that are there, and what would be done."""

    source: admin.PerTopic[snapshot.Topic]
    there: admin.PerTopic[snapshot.Topic]
    planned: topic_plan.Plan


class MirrorTopics:
    """One thread at a time. `pause` waits so many seconds; True: no more waiting is wanted.

    `stopped`: from now on nothing may be changed any more; another flow may have taken over.
    """

    def __init__(
        self,
        flow: flows.Flow,
        *,
        source: admin.Admin,
        target: admin.Admin,
        now: clock.Clock,
        pause: Callable[[float], bool],
        stopped: Callable[[], bool],
        operator: commands.Operator = commands.NOBODY,
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._clock = now
        self._pause = pause
        self._stopped = stopped
        self._operator = operator
        self._sync_configs = True

    def bring_about(
        self, names: Iterable[str], end: deadline.Deadline, *, sync_configs: bool
    ) -> mirror_findings.Topics:
        """See to it that these topics of the source have mirrors, as large as they are, and with
        `sync_configs` with settings that follow theirs.

        Failures that may pass are tried again for `AGAIN_S`, or until half of the time is over.
        What is refused, or blocked by a setting, is waited for by nobody.
        Raises as `admin.Admin` where a whole cluster does not answer or refuses us, and
        RetriableError once it is `stopped`.
        """
        self._sync_configs = sync_configs
        until = deadline.Deadline.after(
            min(AGAIN_S, self._left_s(end) / 2.0), now_s=self._clock.now_s()
        )
        found = self._round(names, end)
        passing = found.passing()
        if passing:
            first = found.problems[passing[0]].message
            _log.warning("topics that are tried again: %d, first %s", len(passing), first)
        while passing and self._left_s(until) and not self._pause(_ROUND_S):
            found = found.updated(self._round(passing, end))
            passing = found.passing()
        return found

    def describe(
        self, partitions: Mapping[str, int], end: deadline.Deadline
    ) -> mirror_findings.Topics:
        """These topics of the source and their mirrors as they are; nothing is changed.

        A mirror is waited for, up to `SPREADS_S`, until it has so many `partitions`.
        Raises as `bring_about`.
        """
        source = self._observe(self._source, partitions, end)
        sizes = {self._flow.remote_topic(name): partitions[name] for name in source.done}
        mirrors = self._await_there(sizes, end)
        standing = topic_plan.plan(
            replace(self._flow, sync_topic_configs_interval_s=None),
            snapshot.Snapshot(
                topics={
                    name: topic
                    for name, topic in source.done.items()
                    if self._flow.remote_topic(name) in mirrors.done
                }
            ),
            snapshot.Snapshot(topics=mirrors.done),
            sync_configs=False,
            operator=self._operator,
        ).findings
        return self._told(source, mirrors, standing)

    def foresee(self, names: Iterable[str], end: deadline.Deadline) -> Foreseen:
        """What bringing about the mirrors of these topics would do; nothing is changed.

        Raises as `bring_about`.
        """
        source = self._observe(self._source, names, end)
        topics = {self._flow.remote_topic(name): topic for name, topic in source.done.items()}
        listed = self._target.list_topics(self._left_s(end))
        there = self._observe(self._target, topics.keys() & listed, end)
        # A mirror that cannot be seen is neither missing nor of a known size.
        known = {each.name: each for mirror, each in topics.items() if mirror not in there.failed}
        planned = self._plan(known, there.done, end, listed=listed)
        return Foreseen(source=source, there=there, planned=planned)

    def follow_settings(self, names: Iterable[str], end: deadline.Deadline) -> None:
        """Have settings of the mirrors of these topics follow theirs; nothing is made or grown.

        What is refused is told. Raises as `bring_about`.
        """
        self._sync_configs = True
        topics = {
            self._flow.remote_topic(name): topic
            for name, topic in self._observe(self._source, names, end).done.items()
        }
        listed = self._target.list_topics(self._left_s(end))
        there = self._observe(self._target, topics.keys() & listed, end)
        followed = {topics[mirror].name: topics[mirror] for mirror in there.done}
        planned = self._plan(followed, there.done, end, listed=listed)
        if not self._stopped():
            self._carry_out(replace(planned, create=(), grow=()), end)

    def _left_s(self, end: deadline.Deadline) -> float:
        return end.left_s(self._clock.now_s())

    def _observe(
        self, side: admin.Admin, names: Iterable[str], end: deadline.Deadline
    ) -> admin.PerTopic[snapshot.Topic]:
        return admin.observe_topics(side, sorted(names), self._left_s(end), clock=self._clock)

    def _round(self, names: Iterable[str], end: deadline.Deadline) -> mirror_findings.Topics:
        seen = self.foresee(names, end)
        source, there, planned = seen.source, seen.there, seen.planned
        topics = {self._flow.remote_topic(name): topic for name, topic in source.done.items()}
        if self._stopped():
            raise errors.RetriableError(
                f"{self._flow.name} is ending: no mirrors are made any more"
            )
        refused = {**there.failed, **self._carry_out(planned, end)}
        blocked = {each.topic for each in planned.findings if mirror_findings.stops(each)}
        wanted = {
            mirror: each.partitions
            for mirror, each in topics.items()
            if mirror not in refused and each.name not in blocked
        }
        after = self._await_there(wanted, end)
        failed = {**refused, **after.failed}
        mirrors = admin.PerTopic(done=after.done, failed=failed)
        found = self._told(source, mirrors, planned.findings)
        return replace(found, warnings=mirror_findings.warnings(planned))

    def _told(
        self,
        source: admin.PerTopic[snapshot.Topic],
        mirrors: admin.PerTopic[snapshot.Topic],
        findings: Iterable[topic_plan.Finding],
    ) -> mirror_findings.Topics:
        return mirror_findings.told(
            self._flow,
            self._operator,
            source=source,
            mirrors=mirrors,
            blocked={each.topic: each for each in findings if mirror_findings.stops(each)},
        )

    def _plan(
        self,
        source: Mapping[str, snapshot.Topic],
        there: Mapping[str, snapshot.Topic],
        end: deadline.Deadline,
        *,
        listed: Collection[str],
    ) -> topic_plan.Plan:
        defaults = self._target.broker_configs(
            list(snapshot.BROKER_NAMES.values()), self._left_s(end)
        )
        ours = snapshot.Snapshot(topics=source)
        theirs = snapshot.Snapshot(
            topics=there,
            new_topic=snapshot.new_topic_settings(defaults),
            settings=self._settings(there, listed, end),
        )

        def planned(*, sync_configs: bool) -> topic_plan.Plan:
            return topic_plan.plan(
                self._flow, ours, theirs, sync_configs=sync_configs, operator=self._operator
            )

        now = planned(sync_configs=self._sync_configs)
        if self._sync_configs or not self._flow.syncs_topic_configs:
            return now
        # What is about to follow is nothing to warn of.
        return replace(planned(sync_configs=True), alter=now.alter)

    def _settings(
        self,
        there: Mapping[str, snapshot.Topic],
        listed: Collection[str],
        end: deadline.Deadline,
    ) -> Collection[str] | None:
        """Which settings the target's release has: any one of its topics shows them.

        Before there are mirrors, that is the flow's own topic, or whatever is there.
        """
        for each in there.values():
            if each.configs:
                return each.configs.keys()
        own = naming.map_topic(self._flow.source)
        any_one = [own] if own in listed else sorted(listed)[:1]
        found = self._target.topic_configs(any_one, self._left_s(end)).done if any_one else {}
        return next((configs.keys() for configs in found.values()), None)

    def _carry_out(
        self, planned: topic_plan.Plan, end: deadline.Deadline
    ) -> dict[str, errors.ConnectError]:
        """Create, grow and set; failures by the mirror topic's name."""
        refused: dict[str, errors.ConnectError] = dict(self._create(planned, end).failed)
        if planned.grow:
            growth = {each.name: each.partitions for each in planned.grow}
            refused.update(self._target.grow_topics(growth, self._left_s(end)).failed)
        if planned.alter:
            changes = {
                each.name: admin.ConfigChange(set=each.set, delete=each.delete)
                for each in planned.alter
            }
            answered = self._target.alter_configs(changes, self._left_s(end))
            for name, error in answered.failed.items():
                _log.warning("settings of %s: %s", name, error)
        return refused

    def _create(self, planned: topic_plan.Plan, end: deadline.Deadline) -> admin.PerTopic[None]:
        topics = to_create(planned)
        if not topics:
            return admin.PerTopic(done={}, failed={})
        return self._target.create_topics(topics, self._left_s(end))

    def _await_there(
        self, partitions: Mapping[str, int], end: deadline.Deadline
    ) -> admin.PerTopic[snapshot.Topic]:
        """The mirrors as brokers know them, once each has so many partitions or time is up.

        Brokers learn of a new topic, or of its growth, a little after it was acknowledged; any one
        of them may answer.
        """
        until = deadline.Deadline.after(
            min(SPREADS_S, self._left_s(end)), now_s=self._clock.now_s()
        )
        seen = self._observe(self._target, partitions, end)
        done, failed = dict(seen.done), dict(seen.failed)
        while True:
            late = {name for name, each in done.items() if each.partitions < partitions[name]}
            late |= {name for name, error in failed.items() if mirror_findings.may_come(error)}
            if not late or not self._left_s(until) or self._pause(_LOOK_S):
                return admin.PerTopic(done=done, failed=failed)
            seen = self._observe(self._target, late, end)
            for name in late:
                done.pop(name, None)
                failed.pop(name, None)
            done.update(seen.done)
            failed.update(seen.failed)


def to_create(planned: topic_plan.Plan) -> list[admin.NewTopic]:
    """Mirrors that are missing, but for those that must not be copied as things are."""
    return [
        admin.NewTopic(
            name=each.name,
            partitions=each.partitions,
            replication_factor=each.replication_factor,
            configs=each.configs,
        )
        for each in planned.create
        if each.topic not in planned.stopped_topics()
    ]
