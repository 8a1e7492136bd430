"""The whole preflight of a file: looks at everything, side by side, and judges what was seen."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random

from connect_runtime.base import clock as base_clock
from mm2.app import flow_plan
from mm2.app.preflight import flow_look, flow_rights, logins, reaching, side_by_side, slot_look
from mm2.app.settings import settings as app_settings
from mm2.core import flows
from mm2.core.preflight import findings, reach, slots

_SLACK_S = 5.0
_ANSWERS_MAX = 20
"""More answers than that no look at a flow waits for, one after the other."""


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
        by_name = {plan.name: plan for plan in plans}
        self._flows = {
            flow.name: (flow, by_name[flow.name]) for flow in settings.flows if flow.name in by_name
        }

    def run(self) -> findings.Report:
        """Reaching clusters and counting slots go on at the same time; then all flows do."""
        with _quiet():
            return self._run()

    def _run(self) -> findings.Report:
        looks: dict[str, Callable[[], reach.Reached | slots.Seen]] = {
            f"{number} {each.alias}": self._reaching(each)
            for number, each in enumerate(self._logins())
        }
        looks[findings.ENGINE] = lambda: slot_look.look(
            self._settings, clock=self._clock, timeout_s=self._timeout_s
        )
        seen = side_by_side.run(looks, clock=self._clock, timeout_s=self._reach_s)
        reached = [each for each in seen.values() if isinstance(each, reach.Reached)]
        slot_view = next((each for each in seen.values() if isinstance(each, slots.Seen)), None)
        found = [finding for each in reached for finding in each.told()]
        rows = list(_rows(reached))
        of_flows = self._look_at_flows(reached)
        for name in self._flows:
            told = of_flows.get(name)
            if told is None:
                rows.append(
                    findings.Looked(subject=name, seen=frozenset(), skipped=flow_look.WORDS)
                )
                continue
            rows.append(findings.Looked(subject=name, seen=flow_look.WORDS))
            found.extend(told)
        if slot_view is not None:
            rows.append(
                findings.Looked(subject=findings.ENGINE, seen=frozenset({findings.Word.SPARK}))
            )
            found.extend(slots.judge(slot_view))
        return findings.judge(rows, found)

    @property
    def _reach_s(self) -> float:
        return max(2 * self._timeout_s, slot_look.LONGEST_S) + _SLACK_S

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
    ) -> dict[str, Sequence[findings.Finding] | None]:
        """Those whose clusters all their clients can reach."""
        lost = {each.alias for each in reached if not each.whole}
        brokers = {each.alias: len(each.brokers) for each in reached}
        looks = {
            name: self._looking(flow, plan, brokers[flow.target])
            for name, (flow, plan) in self._flows.items()
            if not lost & {flow.source, flow.target}
        }
        return side_by_side.run(looks, clock=self._clock, timeout_s=_ANSWERS_MAX * self._timeout_s)

    def _looking(
        self, flow: flows.Flow, plan: flow_plan.FlowPlan, brokers: int
    ) -> Callable[[], Sequence[findings.Finding]]:
        look = flow_look.FlowLook(
            self._settings,
            flow,
            plan,
            clock=self._clock,
            random=self._random,
            timeout_s=self._timeout_s,
        )
        return lambda: look.look(brokers)


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
    """What our own connections and looks log of their troubles is told as findings."""
    names = ("connect_runtime.wire", "mm2.connectors", "mm2.pipeline", "mm2.cluster")
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
