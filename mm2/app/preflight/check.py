"""The whole preflight of a file: looks at everything, side by side, and judges what was seen."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from connect_runtime.base import clock as base_clock
from mm2.app import effective_config, flow_plan
from mm2.app.preflight import flow_look, flow_rights, logins, reaching, side_by_side, slot_look
from mm2.app.settings import settings as app_settings
from mm2.core import flows
from mm2.core.configs import connector_configs
from mm2.core.preflight import findings, reach, slots

_SLACK_S = 5.0
_ROUNDS = 3
"""Of looks at a cluster: addresses, brokers, certificates."""
_ANSWERS_MAX = 20
"""More answers than that no look at a flow waits for, one after the other."""


@dataclass(frozen=True, slots=True)
class _Clusters:
    """What became of every login, and of the flows whose clusters all answer, by name."""

    reached: Sequence[reach.Reached]
    flows: Mapping[str, Sequence[findings.Finding]]


class Check:
    """Made for one file. `timeout_s`: how long a cluster may take for one answer.

    Raises `SettingsError` and `ConfigError` for what keeps the file from running at all.
    """

    def __init__(
        self,
        settings: app_settings.Settings,
        names: Sequence[str],
        *,
        environment: Mapping[str, str],
        clock: base_clock.Clock,
        random: Random,
        timeout_s: float,
    ) -> None:
        """`names` of flows; empty: all."""
        self._settings = settings
        self._clock = clock
        self._random = random
        self._timeout_s = timeout_s
        choice = flow_plan.Choice(names=tuple(names))
        plans = flow_plan.plans(settings, choice, environment=environment)
        self._effective = effective_config.of(settings, environment=environment)
        mirroring = {flow.name: flow for flow in settings.flows}
        self._flows = {
            plan.name: (
                mirroring.get(plan.name) or connector_configs.source(plan.source).flow,
                plan,
            )
            for plan in plans
        }

    def run(self) -> findings.Report:
        """Clusters are reached, and then flows looked at, while slots are counted."""
        looks: dict[str, Callable[[], _Clusters | slots.Seen]] = {
            findings.ENGINE: lambda: slot_look.look(
                self._settings, clock=self._clock, timeout_s=self._timeout_s
            ),
            "clusters": self._look_at_clusters,
        }
        with _quiet():
            seen = side_by_side.run(looks, clock=self._clock, timeout_s=self._longest_s)
        clusters, engine = seen["clusters"], seen[findings.ENGINE]
        assert isinstance(clusters, _Clusters), "its own looks have ended, or were given up, before"
        found = [finding for each in clusters.reached for finding in each.told()]
        for told in clusters.flows.values():
            found.extend(told)
        if isinstance(engine, slots.Seen):
            found.extend(slots.judge(engine))
        else:
            found.append(_late(findings.ENGINE, findings.Word.SPARK))
        return findings.judge(self._rows(clusters), found)

    @property
    def _longest_s(self) -> float:
        of_clusters = (_ROUNDS + _ANSWERS_MAX) * self._timeout_s + 2 * _SLACK_S
        return max(of_clusters, self._timeout_s + slot_look.LONGEST_S) + _SLACK_S

    def _look_at_clusters(self) -> _Clusters:
        entrances = {f"{number} {each.alias}": each for number, each in enumerate(self._logins())}
        looks = {name: self._reaching(each) for name, each in entrances.items()}
        longest_s = _ROUNDS * self._timeout_s + _SLACK_S
        seen = side_by_side.run(looks, clock=self._clock, timeout_s=longest_s)
        reached = [self._reached(each, seen[name]) for name, each in entrances.items()]
        return _Clusters(reached=reached, flows=self._look_at_flows(reached))

    def _rows(self, clusters: _Clusters) -> Iterator[findings.Looked]:
        yield from _rows(clusters.reached)
        for name, (_, plan) in self._flows.items():
            words = flow_look.words(plan)
            seen = words if name in clusters.flows else frozenset()
            yield findings.Looked(subject=name, seen=seen, skipped=words - seen)
        yield findings.Looked(subject=findings.ENGINE, seen=frozenset({findings.Word.SPARK}))

    def _reached(self, login: logins.Login, seen: object) -> reach.Reached:
        if isinstance(seen, reach.Reached):
            return seen
        return reaching.unreached(login, clock=self._clock, why="looking at it has not ended")

    def _logins(self) -> list[logins.Login]:
        return logins.of(
            {
                name: (flow, flow_rights.accesses(self._settings, flow, plan))
                for name, (flow, plan) in self._flows.items()
            }
        )

    def _reaching(self, login: logins.Login) -> Callable[[], reach.Reached]:
        return lambda: reaching.reach_all(
            login, clock=self._clock, random=self._random, timeout_s=self._timeout_s
        )

    def _look_at_flows(
        self, reached: Sequence[reach.Reached]
    ) -> dict[str, tuple[findings.Finding, ...]]:
        """Those whose clusters all their clients can reach."""
        lost = {each.alias for each in reached if not each.whole}
        brokers = {each.alias: len(each.brokers) for each in reached}
        looks = {
            name: self._looking(flow, plan, brokers)
            for name, (flow, plan) in self._flows.items()
            if not lost & {flow.source, flow.target}
        }
        longest_s = _ANSWERS_MAX * self._timeout_s
        found = side_by_side.run(looks, clock=self._clock, timeout_s=longest_s)
        return {
            name: (_late(name, findings.Word.PROTOCOL),) if each is None else tuple(each)
            for name, each in found.items()
        }

    def _looking(
        self, flow: flows.Flow, plan: flow_plan.FlowPlan, brokers: Mapping[str, int]
    ) -> Callable[[], Sequence[findings.Finding]]:
        look = flow_look.FlowLook(
            self._settings,
            flow,
            plan,
            effective=self._effective.flows[plan.name],
            clock=self._clock,
            random=self._random,
            timeout_s=self._timeout_s,
        )
        return lambda: look.look(brokers)


def _late(subject: str, word: findings.Word) -> findings.Finding:
    return findings.Finding(
        subject=subject,
        word=word,
        weight=findings.Weight.FAILED,
        code="look-late",
        text="looking at it has not ended in time",
        means="whether it would work is not known",
        mend="look at the load of brokers and network, or give it longer with --timeout",
    )


def _rows(reached: Sequence[reach.Reached]) -> Iterator[findings.Looked]:
    """Several ways into one cluster are one row."""
    looked: dict[str, findings.Looked] = {}
    for each in reached:
        one = each.looked()
        before = looked.get(one.subject, one)
        seen = before.seen | one.seen
        skipped = (before.skipped | one.skipped) - seen
        looked[one.subject] = findings.Looked(subject=one.subject, seen=seen, skipped=skipped)
    yield from looked.values()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What our own connections and looks log of their troubles is told as findings; at the level
    debug it is heard."""
    if logging.getLogger().isEnabledFor(logging.DEBUG):
        yield
        return
    names = ("connect_runtime.wire", "mm2.connectors", "mm2.pipeline", "mm2.cluster")
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
