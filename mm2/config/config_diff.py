"""Compares a changed configuration with the running one and plans the changes.

For each flow, `plan_config_changes` decides whether to start, stop or restart it, change its
topics, or reconfigure it while it is running. `plan_worker_changes` decides which Connect workers
keep running, because a worker's own settings cannot change at runtime. Both functions are pure; the
node (process of `mm2 run`) applies the plan.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mm2.config import dedicated_mode, endpoints_section, mm2_property_keys
from mm2.config.dedicated_mode import SourceAndTarget
from mm2.config.mm2_settings import Mm2Settings
from mm2.replication import record_transforms
from mm2.topics.flow_config import Flow

_START_ONLY_SECTIONS = ("spark", "metrics", "health", "drill", "rest")
_LIVE_WORKER_KEY = f"worker.{mm2_property_keys.RESTART_MAX}:"
"""Key prefix of the setting that limits restarts. It is the only worker setting that can change
while the worker is running."""
AT_NEXT_START_TEXT = "takes effect after mm2 run is restarted"


class FlowChangeAction(enum.Enum):
    """How a configuration change is applied to a flow. The member's value is used in messages."""

    START = "starts"
    STOP = "stops"
    RESTART = "restarts"
    TOPICS = "changes its replicated topics"
    LIVE = "is reconfigured while running"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowChange:
    """Planned configuration change of one flow."""

    flow: str
    step: FlowChangeAction
    reasons: tuple[str, ...] = ()
    """Settings that differ, as `key: old -> new`."""

    def format_lines(self) -> list[str]:
        """Format the change and its reasons as lines of text."""
        return [f"{self.flow} {self.step.value}", *(f"  {each}" for each in self.reasons)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadPlan:
    """Planned changes of a configuration reload."""

    flows: tuple[FlowChange, ...] = ()
    restart_required: tuple[str, ...] = ()
    """Changed settings that take effect only when the process is restarted."""

    @property
    def is_empty(self) -> bool:
        """Return True if the configuration has not changed."""
        return not self.flows and not self.restart_required

    def format_lines(self) -> list[str]:
        """Format the plan as at least one line of text."""
        if self.is_empty:
            return ["nothing has changed"]
        told = [line for each in self.flows for line in each.format_lines()]
        return [*told, *(f"{each}; {AT_NEXT_START_TEXT}" for each in self.restart_required)]

    def as_json(self) -> dict[str, Any]:
        """Return the plan as a JSON document."""
        return {
            "flows": [
                {
                    "flow": each.flow,
                    "step": each.step.name.lower(),
                    "reasons": list(each.reasons),
                }
                for each in self.flows
            ],
            "at_next_start": list(self.restart_required),
        }


def plan_config_changes(old: Mm2Settings, new: Mm2Settings) -> ReloadPlan:
    """Plan the changes from the running settings to the new settings.

    The changes are in the order of the flows in the new file, followed by the flows to stop.
    """
    before = {flow.name: flow for flow in old.flows}
    after = {flow.name: flow for flow in new.flows}
    found = [
        _plan_flow_change(flow, before.get(name), old=old, new=new) for name, flow in after.items()
    ]
    gone = [
        FlowChange(flow=name, step=FlowChangeAction.STOP) for name in before if name not in after
    ]
    changes = [each for each in found if each is not None]
    return ReloadPlan(
        flows=(*changes, *gone), restart_required=tuple(_list_changes_requiring_restart(old, new))
    )


def merge_running_settings(old: Mm2Settings, new: Mm2Settings) -> Mm2Settings:
    """Return the new settings, but with the current values of settings that cannot change while the
    process is running.

    Therefore, the next reload again reports the changed settings that need a restart.
    """
    same = {
        name: old.effective.get(name, {}) for name in _START_ONLY_SECTIONS if name in new.effective
    }
    same |= {name: old.effective[name] for name in _START_ONLY_SECTIONS if name in old.effective}
    return dataclasses.replace(
        new,
        spark=old.spark,
        metrics=old.metrics,
        health=old.health,
        secret_environment=old.secret_environment,
        effective={**new.effective, **same},
    )


def _plan_flow_change(
    after: Flow,
    before: Flow | None,
    *,
    old: Mm2Settings,
    new: Mm2Settings,
) -> FlowChange | None:
    if before is None:
        return FlowChange(flow=after.name, step=FlowChangeAction.START)
    reasons = [
        *_format_differences(
            _find_flow_section(old, after.name), _find_flow_section(new, after.name)
        )
    ]
    workers = [
        f"worker.{line}"
        for line in _format_differences(
            _derive_worker_keys(old, after), _derive_worker_keys(new, after)
        )
    ]
    clients = _diff_clients(old, new, after)
    told = (*reasons, *clients, *workers)
    if not told and before == after:
        return None
    begun = all(each.startswith(_LIVE_WORKER_KEY) for each in workers)
    if clients or not begun or any(map(_affects_record_transforms, reasons)):
        step = FlowChangeAction.RESTART
    else:
        step = _choose_change_action(before, after)
    return FlowChange(flow=after.name, step=step, reasons=told)


def _derive_worker_keys(found: Mm2Settings, flow: Flow) -> Mapping[str, object]:
    """Derive the settings of the flow's Connect worker, without client properties. The result
    contains no secrets."""
    ends = SourceAndTarget(flow.source, flow.target)
    given = dedicated_mode.derive_worker_config(found.flat.props, ends)
    return {key: given[key] for key in endpoints_section.WORKER_KEYS if key in given}


def _choose_change_action(before: Flow, after: Flow) -> FlowChangeAction:
    """Choose the least disruptive action that applies the configuration change to the flow."""
    live = dataclasses.replace(before, throttles=after.throttles, groups=after.groups)
    if live == after:
        return FlowChangeAction.LIVE
    topics = dataclasses.replace(
        live, topics=after.topics, replicate_heartbeats=after.replicate_heartbeats
    )
    return FlowChangeAction.TOPICS if topics == after else FlowChangeAction.RESTART


def _affects_record_transforms(reason: str) -> bool:
    return reason.startswith((*record_transforms.LIST_KEYS, *record_transforms.KEY_PREFIXES))


def _diff_clients(old: Mm2Settings, new: Mm2Settings, flow: Flow) -> list[str]:
    """List the differences between the old and new client properties of the flow's clusters."""
    if _collect_client_settings(old, flow) == _collect_client_settings(new, flow):
        return []
    told: list[str] = []
    for alias in (flow.source, flow.target):
        before, after = (
            _get_effective_section(each.effective, "clusters", alias) for each in (old, new)
        )
        told += [f"cluster {alias}: {line}" for line in _format_differences(before, after)]
    return told or ["secrets, or the files that contain them, have changed"]


def _collect_client_settings(found: Mm2Settings, flow: Flow) -> tuple[object, ...]:
    ends = (found.clusters[flow.source], found.clusters[flow.target])
    clients = found.get_clients(flow)
    both = (*ends, clients.consumer, clients.producer, clients.source_admin, clients.target_admin)
    return tuple((each.bootstrap_servers, each.security, dict(each.properties)) for each in both)


def _list_changes_requiring_restart(old: Mm2Settings, new: Mm2Settings) -> Iterable[str]:
    for name, one, other in (
        ("spark", old.spark, new.spark),
        ("metrics", old.metrics, new.metrics),
    ):
        if one == other:
            continue
        before, after = (_get_effective_section(each.effective, name) for each in (old, new))
        yield from (
            f"{name}.{line}" for line in _format_differences(before, after) or ["conf: changed"]
        )
    for name in ("health", "drill", "rest"):
        both = (_get_effective_section(each.effective, name) for each in (old, new))
        yield from (f"{name}.{line}" for line in _format_differences(*both))
    for variable in sorted(new.secret_environment - old.secret_environment):
        yield (
            f"environment variable {variable} now contains a secret, but running Spark processes "
            "have already inherited it"
        )


def _find_flow_section(found: Mm2Settings, name: str) -> Mapping[str, object]:
    listed = found.effective.get("flows", [])
    assert isinstance(listed, list), listed
    mine = (each for each in listed if f"{each.get('from')}->{each.get('to')}" == name)
    return next(mine, {})


def _get_effective_section(effective: Mapping[str, object], *path: str) -> Mapping[str, object]:
    found: object = effective
    for name in path:
        found = found.get(name, {}) if isinstance(found, Mapping) else {}
    return found if isinstance(found, Mapping) else {}


def _format_differences(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return [
        f"{key}: {_format_setting_value(before.get(key))} -> "
        f"{_format_setting_value(after.get(key))}"
        for key in dict.fromkeys((*before, *after))
        if before.get(key) != after.get(key)
    ]


def _format_setting_value(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)


Props = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerChanges:
    """Names of flows, grouped by what happens to the flow's Connect worker: it keeps running, stops
    or starts.

    A flow in both `stopped` and `started` is restarted: its worker must stop first.
    """

    kept: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    started: tuple[str, ...] = ()


def plan_worker_changes(
    running: Mapping[str, Props], desired: Mapping[str, Props]
) -> WorkerChanges:
    """Plan worker changes by comparing the running and desired worker properties of each flow.

    `running` must not include workers that have already terminated.
    """
    same = {name for name in running if name in desired and desired[name] == running[name]}
    return WorkerChanges(
        kept=tuple(name for name in running if name in same),
        stopped=tuple(name for name in running if name not in same),
        started=tuple(name for name in desired if name not in same),
    )
