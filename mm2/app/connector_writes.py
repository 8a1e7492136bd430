"""A group's leader writes what its file makes of the flow's connectors (Java: MirrorHerder).

What operators have set is kept. Nodes whose files differ are told, by the keys and not the values:
these may be secrets.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from connect_runtime.app import fleet_member
from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.core.herder import requests
from mm2.app import flow_plan
from mm2.core.configs import dedicated, live

WRITE_S = 60.0
"""What validating and writing one connector may take."""
AGAIN_S = 5.0
UNLIKE_S = 15.0
"""For so long files may differ before that is told: they are changed one after the other."""

_log = logging.getLogger(__name__)


class ConnectorWrites:
    """`lead` and `change` from any thread, `look` from the flow's."""

    def __init__(self, plan: flow_plan.FlowPlan, *, clock: base_clock.Clock) -> None:
        self._plan = plan
        self._clock = clock
        self._lock = threading.Lock()
        self._written = False
        self._again_at_s = 0.0
        self._unlike_since_s: float | None = None
        self._told: tuple[str, ...] = ()
        self.led_elsewhere = ""
        """Why nothing of this node's file is written here though it differs, "" otherwise."""

    @property
    def settled(self) -> bool:
        """Nothing is left to be written by this node, as far as it knows."""
        return self._written

    def change(self, plan: flow_plan.FlowPlan) -> None:
        self._plan, self._written, self._again_at_s = plan, False, 0.0
        self.led_elsewhere = ""

    def lead(self, member: fleet_member.Member) -> None:
        """This worker leads its group."""
        self._write(member)

    def look(self, member: fleet_member.Member, now_s: float) -> None:
        """What was not written yet is, and what others wrote is compared."""
        if not member.herder.ready():
            return
        unlike = self._unlike(member)
        if not unlike:
            self.led_elsewhere = ""
            self._written, self._unlike_since_s, self._told = True, None, ()
        elif member.leads:
            self.led_elsewhere = ""
            if not self._written and now_s >= self._again_at_s:
                self._again_at_s = now_s + AGAIN_S
                self._write(member)
        else:
            where = f"the node at {member.leader_url}" if member.leader_url else "another node"
            self.led_elsewhere = (
                f"{self._plan.name}: {where} leads, and writes what its own file says: give it the "
                f"same file, and reload there; they differ in {'; '.join(_differing(unlike))}"
            )
            self._written = True  # by others, when they are given the same file
            self._tell(unlike, now_s)

    def _unlike(self, member: fleet_member.Member) -> dict[str, list[str]]:
        """Keys that differ, by connector."""
        config = member.herder.config()
        found: dict[str, list[str]] = {}
        for name, ours in self._plan.connectors.items():
            stored = _texts(config.config(name))
            if not dedicated.can_run(name, ours):
                if stored is not None:
                    found[name] = []
            elif stored is None or live.without(stored) != ours:
                found[name] = dedicated.differences(ours, live.without(stored or {}))
        return found

    def _tell(self, unlike: Mapping[str, list[str]], now_s: float) -> None:
        if self._unlike_since_s is None:
            self._unlike_since_s = now_s
        told = _differing(unlike)
        if told != self._told and now_s - self._unlike_since_s >= UNLIKE_S:
            self._told = told
            _log.warning(
                "%s: the group's leader has another file than this node; they differ in %s",
                self._plan.name,
                "; ".join(told),
            )

    def _write(self, member: fleet_member.Member) -> None:
        with self._lock:
            plan = self._plan
            self._written = False  # whoever followed before, and leads now, has not written yet
            try:
                written = [self._put(member, *each) for each in plan.connectors.items()]
            except (errors.ConnectError, TimeoutError) as error:
                _log.warning("%s: its connectors are not configured yet: %s", plan.name, error)
                return
            self._written = all(written) and plan is self._plan

    def _put(self, member: fleet_member.Member, name: str, ours: Mapping[str, str]) -> bool:
        stored = _texts(member.herder.config().config(name))
        if not dedicated.can_run(name, ours):
            return stored is None or self._ask(member, name, requests.DeleteConnector(name))
        wanted = live.kept(ours, stored) if name == flow_plan.SOURCE else dict(ours)
        set_live = [f"{key}={value}" for key, value in live.only(wanted).items()]
        if set_live:
            _log.info("%s: set while it ran, and kept: %s", self._plan.name, ", ".join(set_live))
        if stored == wanted:
            return True
        if stored is not None:
            keys = ", ".join(dedicated.differences(wanted, stored))
            _log.info("%s: %s is configured anew: %s", self._plan.name, name, keys)
        return self._ask(member, name, requests.PutConnector(connector=name, config=wanted))

    def _ask(self, member: fleet_member.Member, name: str, request: requests.Request) -> bool:
        reply = member.herder.submit(request).result(WRITE_S)
        if isinstance(reply, requests.Refused):
            _log.error("%s: %s is not configured: %s", self._plan.name, name, reply.message)
            return False
        return not isinstance(reply, requests.Forward)


def _differing(unlike: Mapping[str, list[str]]) -> tuple[str, ...]:
    return tuple(f"{name}: {', '.join(found)}" for name, found in unlike.items())


def _texts(config: Mapping[str, str | None] | None) -> dict[str, str] | None:
    if config is None:
        return None
    return {key: value for key, value in config.items() if value is not None}
