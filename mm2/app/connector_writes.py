"""A group's leader writes what its file makes of the flow's connectors (Java: MirrorHerder).

What operators have set is kept. Nodes whose files differ are told, by the keys and not the values:
these may be secrets. Nothing here waits: the herder is asked, and its answers are looked for.
Why a configuration is refused is told once, and it is not written again until it is another.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent import futures
from dataclasses import dataclass

from connect_runtime.app import fleet_member
from connect_runtime.base import errors
from connect_runtime.core.herder import admission, requests
from connect_runtime.ports import herder as herder_port
from mm2.app import flow_plan
from mm2.core.configs import dedicated, live, own_keys

WRITE_S = 60.0
"""What validating and writing the connectors may take."""
AGAIN_S = 5.0
UNLIKE_S = 15.0
"""For so long files may differ before that is told: they are changed one after the other."""
_OPTIONS = frozenset({own_keys.JAVA_STOPPED})
"""Keys that only the command line sets; `_EITHER` may stand in the file, too."""
_EITHER = _OPTIONS | {own_keys.THROTTLE}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Round:
    """What was asked of a worker for a plan, by connector, and until when an answer counts."""

    member: fleet_member.Member
    plan: flow_plan.FlowPlan
    asked: Mapping[str, tuple[requests.Request, futures.Future[herder_port.Reply]]]
    until_s: float


@dataclass(frozen=True, slots=True)
class _Refusal:
    """`is_final`: the same will not be taken later either."""

    request: requests.Request
    reason: str
    is_final: bool


class ConnectorWrites:
    """`lead` and `change` from any thread, `look` from the flow's; none of them waits."""

    def __init__(self, plan: flow_plan.FlowPlan) -> None:
        self._plan = plan
        self._done: flow_plan.FlowPlan | None = None
        self._tried: flow_plan.FlowPlan | None = None
        self._round: _Round | None = None
        self._leads_anew = threading.Event()
        self._led = False
        self._again_at_s = 0.0
        self._unlike_since_s: float | None = None
        self._told: tuple[str, ...] = ()
        self._refusals: Mapping[str, _Refusal] = {}
        self.led_elsewhere = ""
        """Why nothing of this node's file is written here though it differs, "" otherwise."""

    @property
    def refused(self) -> Mapping[str, str]:
        """Why connectors cannot be configured as this node's plan says, by name."""
        return {name: each.reason for name, each in self._refusals.items() if each.is_final}

    @property
    def settled(self) -> bool:
        """Nothing is left to be written by this node, as far as it knows."""
        return self._done is self._plan

    def change(self, plan: flow_plan.FlowPlan) -> None:
        self._plan, self._refusals = plan, {}
        self.led_elsewhere = ""

    def lead(self, _: fleet_member.Member) -> None:
        """This worker leads its group, perhaps once more: others may have written meanwhile."""
        self._leads_anew.set()

    def look(self, member: fleet_member.Member, now_s: float) -> None:
        """What was not written yet is, and what others wrote is compared."""
        if not member.herder.ready():
            return
        self._note_leading(member)
        if self._round is not None and not self._over(self._round, member, now_s):
            return
        plan = self._plan
        unlike = _unlike(plan, member)
        if not unlike:
            self.led_elsewhere, self._refusals = "", {}
            self._done, self._unlike_since_s, self._told = plan, None, ()
        elif member.leads:
            self.led_elsewhere = ""
            if plan is not self._done and (plan is not self._tried or now_s >= self._again_at_s):
                self._again_at_s = now_s + AGAIN_S
                self._write(plan, member, now_s)
        else:
            where = f"the node at {member.leader_url}" if member.leader_url else "another node"
            self.led_elsewhere = f"{plan.name}: {where} leads, and {_remedy(unlike)}"
            self._done, self._refusals = plan, {}  # by others, when they are given the same
            self._tell(plan, unlike, now_s)

    def _note_leading(self, member: fleet_member.Member) -> None:
        """Who followed before, and leads now, has not written yet."""
        if member.leads and (self._leads_anew.is_set() or not self._led):
            self._leads_anew.clear()
            self._done = self._tried = None
        self._led = member.leads

    def _tell(
        self, plan: flow_plan.FlowPlan, unlike: Mapping[str, list[str]], now_s: float
    ) -> None:
        if self._unlike_since_s is None:
            self._unlike_since_s = now_s
        told = _differing(unlike)
        if told != self._told and now_s - self._unlike_since_s >= UNLIKE_S:
            self._told = told
            _log.warning(
                "%s: the group's leader has another %s than this node; they differ in %s",
                plan.name,
                _of_what(unlike),
                "; ".join(told),
            )

    # Writing

    def _write(self, plan: flow_plan.FlowPlan, member: fleet_member.Member, now_s: float) -> None:
        self._tried = plan
        wanted = {name: _request(plan, name, member) for name in plan.connectors}
        asked = {
            name: (request, member.herder.submit(request))
            for name, request in wanted.items()
            if request is not None and not self._is_refused(name, request)
        }
        self._round = _Round(member, plan, asked, now_s + WRITE_S)
        self._over(self._round, member, now_s)

    def _over(self, asked: _Round, member: fleet_member.Member, now_s: float) -> bool:
        """Has everything been answered, or is no longer waited for?"""
        if member is not asked.member:  # a worker that has ended answers nothing
            self._round = None
            return True
        if now_s < asked.until_s and not all(each.done() for _, each in asked.asked.values()):
            return False
        self._round = None
        settled = [self._is_settled(asked, name) for name in asked.asked]
        if all(settled):
            self._done = asked.plan
        return True

    def _is_refused(self, name: str, request: requests.Request) -> bool:
        found = self._refusals.get(name)
        return found is not None and found.is_final and found.request == request

    def _is_settled(self, asked: _Round, name: str) -> bool:
        """Written, or refused for good."""
        plan, (request, future) = asked.plan, asked.asked[name]
        try:
            reply = future.result(0.0)
        except (errors.ConnectError, TimeoutError) as error:
            why = str(error) or f"its worker has not answered for {WRITE_S:.0f} s"
            _log.warning("%s: %s is not configured yet: %s", plan.name, name, why)
            return False
        if not isinstance(reply, requests.Refused):
            self._refusals = {of: each for of, each in self._refusals.items() if of != name}
            return not isinstance(reply, requests.Forward)
        reason = " ".join(reply.message.split())
        refusal = _Refusal(request, reason, reply.status == admission.BAD_REQUEST)
        if self._refusals.get(name) != refusal:
            _log.error("%s: %s is not configured: %s", plan.name, name, reason)
        if plan is self._plan:
            self._refusals = {**self._refusals, name: refusal}
        return refusal.is_final


def _unlike(plan: flow_plan.FlowPlan, member: fleet_member.Member) -> dict[str, list[str]]:
    """Keys that differ, by connector."""
    config = member.herder.config()
    found: dict[str, list[str]] = {}
    for name, ours in plan.connectors.items():
        stored = _texts(config.config(name))
        if not dedicated.can_run(name, ours):
            if stored is not None:
                found[name] = []
        elif stored is None or live.without(stored) != ours:
            found[name] = dedicated.differences(ours, live.without(stored or {}))
    return found


def _request(
    plan: flow_plan.FlowPlan, name: str, member: fleet_member.Member
) -> requests.Request | None:
    """What makes of a connector what the plan says; None: it is that."""
    ours = plan.connectors[name]
    stored = _texts(member.herder.config().config(name))
    if not dedicated.can_run(name, ours):
        return None if stored is None else requests.DeleteConnector(name)
    wanted = live.kept(ours, stored) if name == flow_plan.SOURCE else dict(ours)
    set_live = [f"{key}={value}" for key, value in live.only(wanted).items()]
    if set_live:
        _log.info("%s: set while it ran, and kept: %s", plan.name, ", ".join(set_live))
    if stored == wanted:
        return None
    if stored is not None:
        keys = ", ".join(dedicated.differences(wanted, stored))
        _log.info("%s: %s is configured anew: %s", plan.name, name, keys)
    return requests.PutConnector(connector=name, config=wanted)


# Words


def _differing(unlike: Mapping[str, list[str]]) -> tuple[str, ...]:
    return tuple(f"{name}: {', '.join(found)}" for name, found in unlike.items())


def _of_what(unlike: Mapping[str, list[str]]) -> str:
    """What two nodes differ in: what they were started with, their files, or either."""
    keys = {key for found in unlike.values() for key in found}
    if keys and keys <= _OPTIONS:
        return "command line"
    return "file or command line" if keys and keys <= _EITHER else "file"


def _remedy(unlike: Mapping[str, list[str]]) -> str:
    what = _of_what(unlike)
    done = "reload there" if what == "file" else "start it anew"
    return (
        f"writes what its own {what} says: give it the same {what}, and {done}; they differ in "
        + "; ".join(_differing(unlike))
    )


def _texts(config: Mapping[str, str | None] | None) -> dict[str, str] | None:
    if config is None:
        return None
    return {key: value for key, value in config.items() if value is not None}
