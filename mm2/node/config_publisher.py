"""Writes the connectors' configurations of a flow as its group's leader (Java: `MirrorHerder`).

Operator overrides are kept. If the files of two nodes differ, the keys are logged, not the
values, which may be secrets. Never blocks: the herder is asked and its answers are polled. A
refused configuration is logged once and not written again until it changes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent import futures
from dataclasses import dataclass

from connect_runtime.app.multi_worker import FleetMember
from connect_runtime.base.errors import ConnectError
from connect_runtime.herder import request_routing
from connect_runtime.herder.herder_api import WorkerReply
from connect_runtime.herder.herder_requests import (
    DeleteConnector,
    ForwardRequest,
    HerderRequest,
    PutConnector,
    RequestRefused,
)
from mm2.config import dedicated_mode, flow_plan, keys, operator_overrides
from mm2.config.flow_plan import FlowPlan

WRITE_TIMEOUT_S = 60.0
"""What validating and writing the connectors may take."""
RETRY_DELAY_S = 5.0
MISMATCH_GRACE_S = 15.0
"""For so long files may differ before that is told: they are changed one after the other."""
_COMMAND_LINE_KEYS = frozenset({keys.JAVA_STOPPED_CLEANLY})
"""Keys that only the command line sets; `_COMMAND_LINE_OR_FILE_KEYS` may stand in the file, too."""
_COMMAND_LINE_OR_FILE_KEYS = _COMMAND_LINE_KEYS | {keys.THROTTLE}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _WriteRound:
    """What was asked of a worker for a plan, by connector, and until when an answer counts."""

    member: FleetMember
    plan: FlowPlan
    asked: Mapping[str, tuple[HerderRequest, futures.Future[WorkerReply]]]
    until_s: float


@dataclass(frozen=True, slots=True)
class _WriteRefusal:
    """`is_final`: the same will not be taken later either."""

    request: HerderRequest
    reason: str
    is_final: bool


class ConfigPublisher:
    """`lead` and `change` from any thread, `look` from the flow's; none of them waits."""

    def __init__(self, plan: FlowPlan) -> None:
        self._plan = plan
        self._done: FlowPlan | None = None
        self._tried: FlowPlan | None = None
        self._round: _WriteRound | None = None
        self._leads_anew = threading.Event()
        self._led = False
        self._again_at_s = 0.0
        self._unlike_since_s: float | None = None
        self._told: tuple[str, ...] = ()
        self._refusals: Mapping[str, _WriteRefusal] = {}
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

    def change(self, plan: FlowPlan) -> None:
        self._plan, self._refusals = plan, {}
        self.led_elsewhere = ""

    def lead(self, _: FleetMember) -> None:
        """This worker leads its group, perhaps once more: others may have written meanwhile."""
        self._leads_anew.set()

    def look(self, member: FleetMember, now_s: float) -> None:
        """What was not written yet is, and what others wrote is compared."""
        if not member.herder.ready():
            return
        self._note_leading(member)
        if self._round is not None and not self._over(self._round, member, now_s):
            return
        plan = self._plan
        unlike = _diff_connectors(plan, member)
        if not unlike:
            self.led_elsewhere, self._refusals = "", {}
            self._done, self._unlike_since_s, self._told = plan, None, ()
        elif member.leads:
            self.led_elsewhere = ""
            if plan is not self._done and (plan is not self._tried or now_s >= self._again_at_s):
                self._again_at_s = now_s + RETRY_DELAY_S
                self._write(plan, member, now_s)
        else:
            where = f"the node at {member.leader_url}" if member.leader_url else "another node"
            self.led_elsewhere = f"{plan.name}: {where} leads, and {_describe_remedy(unlike)}"
            self._done, self._refusals = plan, {}  # by others, when they are given the same
            self._tell(plan, unlike, now_s)

    def _note_leading(self, member: FleetMember) -> None:
        """Who followed before, and leads now, has not written yet."""
        if member.leads and (self._leads_anew.is_set() or not self._led):
            self._leads_anew.clear()
            self._done = self._tried = None
        self._led = member.leads

    def _tell(self, plan: FlowPlan, unlike: Mapping[str, list[str]], now_s: float) -> None:
        if self._unlike_since_s is None:
            self._unlike_since_s = now_s
        told = _list_differing_keys(unlike)
        if told != self._told and now_s - self._unlike_since_s >= MISMATCH_GRACE_S:
            self._told = told
            _log.warning(
                "%s: the group's leader has another %s than this node; they differ in %s",
                plan.name,
                _describe_cause(unlike),
                "; ".join(told),
            )

    # Writing

    def _write(self, plan: FlowPlan, member: FleetMember, now_s: float) -> None:
        self._tried = plan
        wanted = {name: _plan_write(plan, name, member) for name in plan.connectors}
        asked = {
            name: (request, member.herder.submit(request))
            for name, request in wanted.items()
            if request is not None and not self._is_refused(name, request)
        }
        self._round = _WriteRound(member, plan, asked, now_s + WRITE_TIMEOUT_S)
        self._over(self._round, member, now_s)

    def _over(self, asked: _WriteRound, member: FleetMember, now_s: float) -> bool:
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

    def _is_refused(self, name: str, request: HerderRequest) -> bool:
        found = self._refusals.get(name)
        return found is not None and found.is_final and found.request == request

    def _is_settled(self, asked: _WriteRound, name: str) -> bool:
        """Written, or refused for good."""
        plan, (request, future) = asked.plan, asked.asked[name]
        try:
            reply = future.result(0.0)
        except (ConnectError, TimeoutError) as error:
            why = str(error) or f"its worker has not answered for {WRITE_TIMEOUT_S:.0f} s"
            _log.warning("%s: %s is not configured yet: %s", plan.name, name, why)
            return False
        if not isinstance(reply, RequestRefused):
            self._refusals = {of: each for of, each in self._refusals.items() if of != name}
            return not isinstance(reply, ForwardRequest)
        reason = " ".join(reply.message.split())
        refusal = _WriteRefusal(request, reason, reply.status == request_routing.BAD_REQUEST_STATUS)
        if self._refusals.get(name) != refusal:
            _log.error("%s: %s is not configured: %s", plan.name, name, reason)
        if plan is self._plan:
            self._refusals = {**self._refusals, name: refusal}
        return refusal.is_final


def _diff_connectors(plan: FlowPlan, member: FleetMember) -> dict[str, list[str]]:
    """Keys that differ, by connector."""
    config = member.herder.config()
    found: dict[str, list[str]] = {}
    for name, ours in plan.connectors.items():
        stored = _drop_nulls(config.config(name))
        if not dedicated_mode.can_run(name, ours):
            if stored is not None:
                found[name] = []
        elif stored is None or operator_overrides.strip_overrides(stored) != ours:
            found[name] = dedicated_mode.diff_keys(
                ours, operator_overrides.strip_overrides(stored or {})
            )
    return found


def _plan_write(plan: FlowPlan, name: str, member: FleetMember) -> HerderRequest | None:
    """What makes of a connector what the plan says; None: it is that."""
    ours = plan.connectors[name]
    stored = _drop_nulls(member.herder.config().config(name))
    if not dedicated_mode.can_run(name, ours):
        return None if stored is None else DeleteConnector(name)
    wanted = (
        operator_overrides.merge_overrides(ours, stored)
        if name == flow_plan.SOURCE_CONNECTOR
        else dict(ours)
    )
    set_live = [
        f"{key}={value}" for key, value in operator_overrides.extract_overrides(wanted).items()
    ]
    if set_live:
        _log.info("%s: set while it ran, and kept: %s", plan.name, ", ".join(set_live))
    if stored == wanted:
        return None
    if stored is not None:
        keys = ", ".join(dedicated_mode.diff_keys(wanted, stored))
        _log.info("%s: %s is configured anew: %s", plan.name, name, keys)
    return PutConnector(connector=name, config=wanted)


# Words


def _list_differing_keys(unlike: Mapping[str, list[str]]) -> tuple[str, ...]:
    return tuple(f"{name}: {', '.join(found)}" for name, found in unlike.items())


def _describe_cause(unlike: Mapping[str, list[str]]) -> str:
    """What two nodes differ in: what they were started with, their files, or either."""
    keys = {key for found in unlike.values() for key in found}
    if keys and keys <= _COMMAND_LINE_KEYS:
        return "command line"
    return "file or command line" if keys and keys <= _COMMAND_LINE_OR_FILE_KEYS else "file"


def _describe_remedy(unlike: Mapping[str, list[str]]) -> str:
    what = _describe_cause(unlike)
    done = "reload there" if what == "file" else "start it anew"
    return (
        f"writes what its own {what} says: give it the same {what}, and {done}; they differ in "
        + "; ".join(_list_differing_keys(unlike))
    )


def _drop_nulls(config: Mapping[str, str | None] | None) -> dict[str, str] | None:
    if config is None:
        return None
    return {key: value for key, value in config.items() if value is not None}
