"""What a new configuration means for a process that runs with another one: a planner.

`plan` decides, `Changes` prints; the node carries out. A flow whose settings and clients are
the same is not in the plan at all.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mm2.app.settings import endpoint_reader, settings
from mm2.app.settings import mirror_maker_keys as keys
from mm2.core import flows
from mm2.core.configs import dedicated
from mm2.core.copy import record_transforms

_AT_START = ("spark", "metrics", "health", "drill", "rest")
_TAKEN_UP = f"worker.{keys.RESTART_MAX}:"
"""Of a worker this alone is changed as it runs."""
AT_NEXT_START = "takes effect when mm2 run is started again"


class Step(enum.Enum):
    """What is done to a flow; the value says it to people."""

    START = "starts"
    STOP = "stops"
    RESTART = "restarts"
    TOPICS = "changes which topics it replicates"
    LIVE = "is changed as it runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowChange:
    """`reasons` are the settings that differ, as `key: old -> new`."""

    flow: str
    step: Step
    reasons: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        return [f"{self.flow} {self.step.value}", *(f"  {each}" for each in self.reasons)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """`later` names what differs and cannot be changed in a running process."""

    flows: tuple[FlowChange, ...] = ()
    later: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        return not self.flows and not self.later

    def lines(self) -> list[str]:
        """For people; one line at least."""
        if self.nothing:
            return ["nothing has changed"]
        told = [line for each in self.flows for line in each.lines()]
        return [*told, *(f"{each}; {AT_NEXT_START}" for each in self.later)]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "flows": [
                {
                    "flow": each.flow,
                    "step": each.step.name.lower(),
                    "reasons": list(each.reasons),
                }
                for each in self.flows
            ],
            "at_next_start": list(self.later),
        }


def plan(old: settings.Settings, new: settings.Settings) -> Changes:
    """From what runs to what is to run, flows in the new file's order and those that end last."""
    before = {flow.name: flow for flow in old.flows}
    after = {flow.name: flow for flow in new.flows}
    found = [_change(flow, before.get(name), old=old, new=new) for name, flow in after.items()]
    gone = [FlowChange(flow=name, step=Step.STOP) for name in before if name not in after]
    changes = [each for each in found if each is not None]
    return Changes(flows=(*changes, *gone), later=tuple(_later(old, new)))


def in_force(old: settings.Settings, new: settings.Settings) -> settings.Settings:
    """The new settings, but for what a running process cannot change: that is told again."""
    same = {name: old.effective.get(name, {}) for name in _AT_START if name in new.effective}
    same |= {name: old.effective[name] for name in _AT_START if name in old.effective}
    return dataclasses.replace(
        new,
        spark=old.spark,
        metrics=old.metrics,
        watch=old.watch,
        secret_environment=old.secret_environment,
        effective={**new.effective, **same},
    )


def _change(
    after: flows.Flow,
    before: flows.Flow | None,
    *,
    old: settings.Settings,
    new: settings.Settings,
) -> FlowChange | None:
    if before is None:
        return FlowChange(flow=after.name, step=Step.START)
    reasons = [*_texts(_shown(old, after.name), _shown(new, after.name))]
    workers = [f"worker.{line}" for line in _texts(_worker(old, after), _worker(new, after))]
    clients = _clients(old, new, after)
    told = (*reasons, *clients, *workers)
    if not told and before == after:
        return None
    begun = all(each.startswith(_TAKEN_UP) for each in workers)
    if clients or not begun or any(map(_is_of_records, reasons)):
        step = Step.RESTART
    else:
        step = _step(before, after)
    return FlowChange(flow=after.name, step=step, reasons=told)


def _worker(found: settings.Settings, flow: flows.Flow) -> Mapping[str, object]:
    """Of the flow's worker, what stands in neither connection nor connector; no secret does."""
    ends = dedicated.Ends(flow.source, flow.target)
    given = dedicated.worker(found.flat.props, ends)
    return {key: given[key] for key in endpoint_reader.WORKER if key in given}


def _step(before: flows.Flow, after: flows.Flow) -> Step:
    """The least that carries a change out."""
    live = dataclasses.replace(before, budgets=after.budgets, groups=after.groups)
    if live == after:
        return Step.LIVE
    topics = dataclasses.replace(
        live, topics=after.topics, replicate_heartbeats=after.replicate_heartbeats
    )
    return Step.TOPICS if topics == after else Step.RESTART


def _is_of_records(reason: str) -> bool:
    return reason.startswith((*record_transforms.LISTS, *record_transforms.FAMILIES))


def _clients(old: settings.Settings, new: settings.Settings, flow: flows.Flow) -> list[str]:
    """What differs in how the flow's clusters are reached."""
    if _reached(old, flow) == _reached(new, flow):
        return []
    told: list[str] = []
    for alias in (flow.source, flow.target):
        before, after = (_section(each.effective, "clusters", alias) for each in (old, new))
        told += [f"cluster {alias}: {line}" for line in _texts(before, after)]
    return told or ["secrets, or files that they name, have changed"]


def _reached(found: settings.Settings, flow: flows.Flow) -> tuple[object, ...]:
    ends = (found.clusters[flow.source], found.clusters[flow.target])
    clients = found.clients_of(flow)
    both = (*ends, clients.consumer, clients.producer, clients.source_admin, clients.target_admin)
    return tuple((each.bootstrap_servers, each.security, dict(each.properties)) for each in both)


def _later(old: settings.Settings, new: settings.Settings) -> Iterable[str]:
    for name, one, other in (
        ("spark", old.spark, new.spark),
        ("metrics", old.metrics, new.metrics),
    ):
        if one == other:
            continue
        before, after = (_section(each.effective, name) for each in (old, new))
        yield from (f"{name}.{line}" for line in _texts(before, after) or ["conf: changed"])
    for name in ("health", "drill", "rest"):
        both = (_section(each.effective, name) for each in (old, new))
        yield from (f"{name}.{line}" for line in _texts(*both))
    for variable in sorted(new.secret_environment - old.secret_environment):
        yield f"environment variable {variable} is a secret now, and Spark has inherited it"


def _shown(found: settings.Settings, name: str) -> Mapping[str, object]:
    listed = found.effective.get("flows", [])
    assert isinstance(listed, list), listed
    mine = (each for each in listed if f"{each.get('from')}->{each.get('to')}" == name)
    return next(mine, {})


def _section(effective: Mapping[str, object], *path: str) -> Mapping[str, object]:
    found: object = effective
    for name in path:
        found = found.get(name, {}) if isinstance(found, Mapping) else {}
    return found if isinstance(found, Mapping) else {}


def _texts(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return [
        f"{key}: {_text(before.get(key))} -> {_text(after.get(key))}"
        for key in dict.fromkeys((*before, *after))
        if before.get(key) != after.get(key)
    ]


def _text(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)
