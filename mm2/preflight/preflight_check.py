"""`PreflightCheck` checks the whole configuration file, and all its clusters and flows
concurrently."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.system.supervised_threads import StoppableThread, UnexpectedThreadEnd
from mm2.config import effective_config, flow_connector_configs, mirror_connector_config
from mm2.config.flow_connector_configs import FlowPlan, FlowSelection
from mm2.config.mm2_settings import Mm2Settings
from mm2.preflight import (
    broker_connectivity_check,
    check_report,
    client_authentication,
    flow_check,
    spark_slots,
)
from mm2.preflight.check_report import (
    CheckArea,
    CheckedSubject,
    CheckFinding,
    CheckReport,
    CheckSeverity,
)
from mm2.preflight.client_authentication import ClusterLogin
from mm2.preflight.connectivity_findings import ConnectResult
from mm2.preflight.flow_check import FlowCheck
from mm2.preflight.spark_slots import SlotSnapshot
from mm2.topics.flow_config import Flow

T = TypeVar("T")


def run_concurrently(
    checks: Mapping[str, Callable[[], T]], *, clock: Clock, timeout_s: float
) -> dict[str, T | None]:
    """Run functions concurrently. Returns their results by name, or None for functions that timed
    out.

    Raises any exception that a function raised.
    """
    found: dict[str, T | None] = dict.fromkeys(checks)
    running: list[StoppableThread] = []
    for name, look in checks.items():

        def run_check(stop: object, name: str = name, look: Callable[[], T] = look) -> None:
            found[name] = look()

        running.append(
            StoppableThread(
                f"check {name}", run_check, on_unexpected_end=_ignore_ended_check_thread
            )
        )
    end = Deadline.after(timeout_s, now_s=clock.now_s())
    for each in running:
        each.join(end.remaining_s(clock.now_s()))
        if each.failure is not None:
            raise each.failure
    return dict(found)


def _ignore_ended_check_thread(_: UnexpectedThreadEnd) -> None:
    """Do nothing when a check thread ends: this is expected when its check is done."""


_TIMEOUT_MARGIN_S = 5.0
_CONNECT_ROUNDS = 3
"""Phases of a cluster check, each with its own timeout: addresses, brokers, certificates."""
_MAX_REQUESTS_PER_FLOW = 20
"""Upper bound of the number of consecutive requests in a flow check."""


@dataclass(frozen=True, slots=True)
class _ClusterResults:
    """Results of connecting to the clusters, and of checking the flows.

    `reached` has the connection result of each login to each cluster. `flows` has the findings by
    flow name, and contains only flows whose clusters all respond.
    """

    reached: Sequence[ConnectResult]
    flows: Mapping[str, Sequence[CheckFinding]]


class PreflightCheck:
    """Checks one configuration file. `timeout_s` limits each request to a cluster.

    Raises `SettingsError` or `ConfigError` if the file is not a valid configuration.
    """

    def __init__(
        self,
        settings: Mm2Settings,
        names: Sequence[str],
        *,
        environment: Mapping[str, str],
        clock: Clock,
        random: Random,
        timeout_s: float,
    ) -> None:
        """Create the check of a configuration file. `names` are the flows to check; empty for all
        flows."""
        self._settings = settings
        self._clock = clock
        self._random = random
        self._timeout_s = timeout_s
        choice = FlowSelection(names=tuple(names))
        plans = flow_connector_configs.plan_flows(settings, choice, environment=environment)
        self._effective = effective_config.derive_effective_config(
            settings, environment=environment
        )
        mirroring = {flow.name: flow for flow in settings.flows}
        self._flows = {
            plan.name: (
                mirroring.get(plan.name)
                or mirror_connector_config.parse_source_config(plan.source_config).flow,
                plan,
            )
            for plan in plans
        }

    def run(self) -> CheckReport:
        """Check the clusters and then the flows, and concurrently count the copy engine's slots
        (copy processes that can run at the same time)."""
        looks: dict[str, Callable[[], _ClusterResults | SlotSnapshot]] = {
            check_report.ENGINE_SUBJECT: lambda: spark_slots.collect_slot_snapshot(
                self._settings, clock=self._clock, timeout_s=self._timeout_s
            ),
            "clusters": self._check_clusters,
        }
        with _silence_client_logs():
            seen = run_concurrently(looks, clock=self._clock, timeout_s=self._total_timeout_s)
        clusters, engine = seen["clusters"], seen[check_report.ENGINE_SUBJECT]
        assert isinstance(clusters, _ClusterResults), (
            "cluster checks have their own, shorter timeout"
        )
        found = [finding for each in clusters.reached for finding in each.list_findings()]
        for told in clusters.flows.values():
            found.extend(told)
        if isinstance(engine, SlotSnapshot):
            found.extend(spark_slots.check_slots(engine))
        else:
            found.append(_build_timeout_finding(check_report.ENGINE_SUBJECT, CheckArea.SPARK))
        return check_report.build_report(self._list_checked_subjects(clusters), found)

    @property
    def _total_timeout_s(self) -> float:
        of_clusters = (
            _CONNECT_ROUNDS + _MAX_REQUESTS_PER_FLOW
        ) * self._timeout_s + 2 * _TIMEOUT_MARGIN_S
        return max(of_clusters, self._timeout_s + spark_slots.MAX_COLLECT_S) + _TIMEOUT_MARGIN_S

    def _check_clusters(self) -> _ClusterResults:
        entrances = {
            f"{number} {each.alias}": each for number, each in enumerate(self._list_logins())
        }
        looks = {name: self._make_cluster_check(each) for name, each in entrances.items()}
        longest_s = _CONNECT_ROUNDS * self._timeout_s + _TIMEOUT_MARGIN_S
        seen = run_concurrently(looks, clock=self._clock, timeout_s=longest_s)
        reached = [self._get_connect_result(each, seen[name]) for name, each in entrances.items()]
        return _ClusterResults(reached=reached, flows=self._check_flows(reached))

    def _list_checked_subjects(self, clusters: _ClusterResults) -> Iterator[CheckedSubject]:
        yield from _merge_cluster_rows(clusters.reached)
        for name, (_, plan) in self._flows.items():
            words = flow_check.select_areas(plan)
            seen = words if name in clusters.flows else frozenset()
            yield CheckedSubject(subject=name, checked=seen, skipped=words - seen)
        yield CheckedSubject(
            subject=check_report.ENGINE_SUBJECT, checked=frozenset({CheckArea.SPARK})
        )

    def _get_connect_result(self, login: ClusterLogin, seen: object) -> ConnectResult:
        if isinstance(seen, ConnectResult):
            return seen
        return broker_connectivity_check.build_unreachable_result(
            login, clock=self._clock, why="the check timed out"
        )

    def _list_logins(self) -> list[ClusterLogin]:
        return client_authentication.list_logins(
            {
                name: (
                    flow,
                    client_authentication.build_cluster_access_by_client(
                        self._settings, flow, plan
                    ),
                )
                for name, (flow, plan) in self._flows.items()
            }
        )

    def _make_cluster_check(self, login: ClusterLogin) -> Callable[[], ConnectResult]:
        return lambda: broker_connectivity_check.check_connectivity(
            login, clock=self._clock, random=self._random, timeout_s=self._timeout_s
        )

    def _check_flows(self, reached: Sequence[ConnectResult]) -> dict[str, tuple[CheckFinding, ...]]:
        """Check the flows whose clusters are reachable for all clients of the flow."""
        lost = {each.alias for each in reached if not each.is_complete}
        brokers = {each.alias: len(each.brokers) for each in reached}
        looks = {
            name: self._make_flow_check(flow, plan, brokers)
            for name, (flow, plan) in self._flows.items()
            if not lost & {flow.source, flow.target}
        }
        longest_s = _MAX_REQUESTS_PER_FLOW * self._timeout_s
        found = run_concurrently(looks, clock=self._clock, timeout_s=longest_s)
        return {
            name: (_build_timeout_finding(name, CheckArea.PROTOCOL),)
            if each is None
            else tuple(each)
            for name, each in found.items()
        }

    def _make_flow_check(
        self, flow: Flow, plan: FlowPlan, brokers: Mapping[str, int]
    ) -> Callable[[], Sequence[CheckFinding]]:
        look = FlowCheck(
            self._settings,
            flow,
            plan,
            effective=self._effective.flows[plan.name],
            clock=self._clock,
            random=self._random,
            timeout_s=self._timeout_s,
        )
        return lambda: look.run(brokers)


def _build_timeout_finding(subject: str, word: CheckArea) -> CheckFinding:
    return CheckFinding(
        subject=subject,
        area=word,
        severity=CheckSeverity.FAILED,
        code="look-late",
        text="the check timed out",
        effect="unknown",
        fix="check the load on brokers and network, or use a longer --timeout",
    )


def _merge_cluster_rows(reached: Sequence[ConnectResult]) -> Iterator[CheckedSubject]:
    """Merge the check results of several logins to one cluster into one table row."""
    looked: dict[str, CheckedSubject] = {}
    for each in reached:
        one = each.summarize_areas()
        before = looked.get(one.subject, one)
        seen = before.checked | one.checked
        skipped = (before.skipped | one.skipped) - seen
        looked[one.subject] = CheckedSubject(subject=one.subject, checked=seen, skipped=skipped)
    yield from looked.values()


@contextlib.contextmanager
def _silence_client_logs() -> Iterator[None]:
    """Suppress log messages of connections and checks unless the log level is debug, because their
    problems are reported as findings."""
    if logging.getLogger().isEnabledFor(logging.DEBUG):
        yield
        return
    names = ("connect_runtime.network", "mm2.connectors", "mm2.copier", "mm2.kafka")
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
