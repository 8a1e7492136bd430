"""What a flow's failures at this node come to: what is started again, and when it is given up.

A fold over what the worker has begun. A failure counts against the flow only if it is one of the
configuration that is in force: at a start the group's topics hold what was configured before, which
may not even be resolved any more, until the leader has written what its file says.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.core.assignment import work
from connect_runtime.core.state import cluster_config, status_records
from connect_runtime.runtime import begun
from mm2.app import flow_plan, flow_statuses, restarts
from mm2.core.configs import live

_State = status_records.State
_WENT_WELL = (_State.RUNNING, _State.PAUSED, _State.STOPPED)


class Whose(enum.Enum):
    """Of a configuration: this node's file makes it; the leader's, which is another; or nobody's,
    it was there before and is about to be replaced."""

    OURS = "ours"
    OTHERS = "others"
    OLD = "old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A connector or task that this node was given to run, and has begun."""

    item: work.Item
    begun: begun.Begun
    whose: Whose

    @property
    def has_failed(self) -> bool:
        return self.begun.state is _State.FAILED

    @property
    def mirrors(self) -> bool:
        return str(self.item).startswith(flow_plan.SOURCE)

    @property
    def reason(self) -> str:
        return flow_statuses.first_line(self.begun.trace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`due` are to be started again now; `given_up`: why the flow goes on no more, "" while it
    may."""

    due: tuple[Part, ...] = ()
    given_up: str = ""


def parts(
    given: Iterable[work.Item],
    found: Mapping[status_records.Subject, begun.Begun],
    *,
    config: cluster_config.ClusterConfig,
    plan: flow_plan.FlowPlan,
    leads: bool,
) -> list[Part]:
    """Of those `given` to this node, the ones that it has begun."""
    whose = _Judge(config, plan, leads=leads)
    return [
        Part(item=item, begun=found[item], whose=whose(item, found[item].config))
        for item in given
        if item in found
    ]


@dataclass(frozen=True, slots=True)
class _Judge:
    config: cluster_config.ClusterConfig
    plan: flow_plan.FlowPlan
    leads: bool = field(kw_only=True)

    def __call__(self, item: work.Item, begun_with: cluster_config.RawConfig) -> Whose:
        config = self.config
        name = item if isinstance(item, str) else item.connector
        stored = config.config(name)
        planned = stored is not None and live.without(_texts(stored)) == self.plan.connectors.get(
            name
        )
        if isinstance(item, str):
            in_force = begun_with == stored
        else:
            applied = config.applied_config(name)
            in_force = begun_with == config.task_config(item) and applied == stored
        if not in_force or (self.leads and not planned):
            return Whose.OLD
        return Whose.OURS if planned else Whose.OTHERS


def _texts(config: cluster_config.RawConfig) -> dict[str, str]:
    return {key: value for key, value in config.items() if value is not None}


@dataclass(slots=True)
class Failures:
    """`restarts` says how often. `_ran`: of connectors and of tasks that mirror, those kinds of
    which one went well here once."""

    restarts: restarts.Restarts
    _ran: set[type[work.Item]] = field(default_factory=set)

    def look(self, found: Iterable[Part], now_s: float) -> Verdict:
        """What to do about what there is now."""
        by_name = {str(each.item): each for each in found}
        self._ran.update(
            type(each.item)
            for each in by_name.values()
            if each.mirrors and each.begun.state in _WENT_WELL
        )
        due = self.restarts.due(
            {
                name: restarts.Attempt(number=each.begun.times, state=each.begun.state)
                for name, each in by_name.items()
            },
            now_s,
        )
        bad = [each for each in by_name.values() if each.has_failed and each.mirrors]
        return Verdict(
            due=tuple(by_name[name] for name in due if not self._begins_badly(by_name[name])),
            given_up=next((each.reason for each in bad if self._is_over(each)), ""),
        )

    def _is_over(self, part: Part) -> bool:
        """Heartbeats and checkpoints that fail stop nothing else: they are not asked for."""
        if part.whose is Whose.OLD:
            return False
        return self._begins_badly(part) or bool(self.restarts.given_up([str(part.item)]))

    def _begins_badly(self, part: Part) -> bool:
        """What the mirror begins with does not mend by itself. A task that comes here later, from
        another node say, is one of many."""
        return part.mirrors and part.whose is Whose.OURS and type(part.item) not in self._ran
