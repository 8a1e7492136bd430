"""Writes the configurations of a flow's connectors if this node leads the flow's Connect group
(Java: `MirrorHerder`).

Operator overrides are preserved. If two nodes have different configuration files, the differing
keys are logged but not the values, which may be secrets. Never blocks: requests are submitted to
the herder and the replies are polled. A rejected configuration is logged once and not written again
until it changes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent import futures
from dataclasses import dataclass

from connect_runtime.app.multi_worker_process import FleetMember
from connect_runtime.base.errors import ConnectError
from connect_runtime.herder import herder_request_routing
from connect_runtime.herder.herder_interface import WorkerReply
from connect_runtime.herder.herder_requests import (
    DeleteConnector,
    ForwardRequest,
    HerderRequest,
    PutConnector,
    RequestRefused,
)
from mm2.config import (
    dedicated_mode,
    flow_connector_configs,
    mirror_connector_config_keys,
    mm2_only_keys,
    pause_and_throttle_overrides,
)
from mm2.config.flow_connector_configs import FlowPlan

WRITE_TIMEOUT_S = 60.0
"""Time limit in seconds for validating and writing the connectors' configurations."""
RETRY_DELAY_S = 5.0
MISMATCH_GRACE_S = 15.0
"""How long the files of nodes may differ before the difference is logged, in seconds. Operators
change the files one after the other."""
_COMMAND_LINE_KEYS = frozenset({mirror_connector_config_keys.JAVA_STOPPED_CLEANLY})
"""Configuration keys that are derived only from command-line options of `mm2 run`. The keys in
`_COMMAND_LINE_OR_FILE_KEYS` may also be set in the configuration file."""
_COMMAND_LINE_OR_FILE_KEYS = _COMMAND_LINE_KEYS | {mm2_only_keys.THROTTLE.name}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _PendingWrites:
    """Requests that write the connector configurations of a plan, their pending replies, and the
    deadline for the replies."""

    member: FleetMember
    plan: FlowPlan
    replies: Mapping[str, tuple[HerderRequest, futures.Future[WorkerReply]]]
    deadline_s: float


@dataclass(frozen=True, slots=True)
class _WriteRefusal:
    """A rejected write request; `is_final` is True if a retry would be rejected too."""

    request: HerderRequest
    reason: str
    is_final: bool


class ConfigPublisher:
    """Writes the configurations of a flow's connectors if this node leads the flow's Connect group.
    Never blocks.

    `notify_leadership` and `replace_plan` are thread-safe. `write_or_compare_configs` must be
    called by the flow's thread.
    """

    def __init__(self, plan: FlowPlan) -> None:
        self._plan = plan
        self._written: FlowPlan | None = None
        self._attempted: FlowPlan | None = None
        self._round: _PendingWrites | None = None
        self._became_leader = threading.Event()
        self._was_leader = False
        self._retry_at_s = 0.0
        self._mismatch_since_s: float | None = None
        self._logged_keys: tuple[str, ...] = ()
        self._refusals: Mapping[str, _WriteRefusal] = {}
        self.other_leader_reason = ""
        """Reason why another node must write this node's configuration: that node leads the group,
        and its configuration differs. "" if this node leads or the configurations are the same."""

    @property
    def rejections(self) -> Mapping[str, str]:
        """Reasons why connectors cannot be configured as planned, by connector name."""
        return {name: each.reason for name, each in self._refusals.items() if each.is_final}

    @property
    def has_written_configs(self) -> bool:
        """True if this node has no connector configuration left to write."""
        return self._written is self._plan

    def replace_plan(self, plan: FlowPlan) -> None:
        """Replace the planned connector configurations. The next call of `write_or_compare_configs`
        writes them."""
        self._plan, self._refusals = plan, {}
        self.other_leader_reason = ""

    def notify_leadership(self, _: FleetMember) -> None:
        """Record that this node's worker has become the leader of its Connect group.

        May be called repeatedly. The configurations are written again, because another leader may
        have changed them in the meantime.
        """
        self._became_leader.set()

    def write_or_compare_configs(self, member: FleetMember, now_s: float) -> None:
        """If this node leads the group, write configurations that have not been written yet.
        Otherwise log how the leader's configurations differ from this node's plan."""
        if not member.herder.is_ready():
            return
        self._detect_leadership(member)
        if self._round is not None and not self._are_writes_finished(self._round, member, now_s):
            return
        plan = self._plan
        differing = _diff_connectors(plan, member)
        if not differing:
            self.other_leader_reason, self._refusals = "", {}
            self._written, self._mismatch_since_s, self._logged_keys = plan, None, ()
        elif member.is_leader:
            self.other_leader_reason = ""
            if plan is not self._written and (
                plan is not self._attempted or now_s >= self._retry_at_s
            ):
                self._retry_at_s = now_s + RETRY_DELAY_S
                self._write_connectors(plan, member, now_s)
        else:
            where = f"the node at {member.leader_url}" if member.leader_url else "another node"
            self.other_leader_reason = (
                f"{plan.name}: {where} leads, and {_describe_difference_remedy(differing)}"
            )
            self._written, self._refusals = (
                plan,
                {},
            )  # another node writes them once it has the same file
            self._log_config_mismatch(plan, differing, now_s)

    def _detect_leadership(self, member: FleetMember) -> None:
        """Mark all connector configurations as not written if this node's worker has become the
        group's leader."""
        if member.is_leader and (self._became_leader.is_set() or not self._was_leader):
            self._became_leader.clear()
            self._written = self._attempted = None
        self._was_leader = member.is_leader

    def _log_config_mismatch(
        self, plan: FlowPlan, differing: Mapping[str, list[str]], now_s: float
    ) -> None:
        if self._mismatch_since_s is None:
            self._mismatch_since_s = now_s
        differing_keys = _list_differing_keys(differing)
        if (
            differing_keys != self._logged_keys
            and now_s - self._mismatch_since_s >= MISMATCH_GRACE_S
        ):
            self._logged_keys = differing_keys
            _log.warning(
                "%s: the group's leader was started with a different %s; the differences are: %s",
                plan.name,
                _describe_difference_cause(differing),
                "; ".join(differing_keys),
            )

    # Writing

    def _write_connectors(self, plan: FlowPlan, member: FleetMember, now_s: float) -> None:
        self._attempted = plan
        requests = {name: _plan_config_write(plan, name, member) for name in plan.connectors}
        replies = {
            name: (request, member.herder.submit_request(request))
            for name, request in requests.items()
            if request is not None and not self._is_request_refused(name, request)
        }
        self._round = _PendingWrites(member, plan, replies, now_s + WRITE_TIMEOUT_S)
        self._are_writes_finished(self._round, member, now_s)

    def _are_writes_finished(
        self, write_round: _PendingWrites, member: FleetMember, now_s: float
    ) -> bool:
        """Return True if all replies to the write requests have arrived or their deadline has
        passed."""
        if member is not write_round.member:  # an ended worker does not reply
            self._round = None
            return True
        if now_s < write_round.deadline_s and not all(
            each.done() for _, each in write_round.replies.values()
        ):
            return False
        self._round = None
        results = [
            self._is_config_written_or_rejected(write_round, name) for name in write_round.replies
        ]
        if all(results):
            self._written = write_round.plan
        return True

    def _is_request_refused(self, name: str, request: HerderRequest) -> bool:
        refusal = self._refusals.get(name)
        return refusal is not None and refusal.is_final and refusal.request == request

    def _is_config_written_or_rejected(self, write_round: _PendingWrites, name: str) -> bool:
        """Return True if the connector's configuration was written or permanently rejected."""
        plan, (request, future) = write_round.plan, write_round.replies[name]
        try:
            reply = future.result(0.0)
        except (ConnectError, TimeoutError) as error:
            reason = str(error) or f"the worker did not reply within {WRITE_TIMEOUT_S:.0f} s"
            _log.warning("%s: %s is not configured yet; retrying: %s", plan.name, name, reason)
            return False
        if not isinstance(reply, RequestRefused):
            self._refusals = {of: each for of, each in self._refusals.items() if of != name}
            return not isinstance(reply, ForwardRequest)
        reason = " ".join(reply.message.split())
        refusal = _WriteRefusal(
            request, reason, reply.status == herder_request_routing.BAD_REQUEST_STATUS
        )
        if self._refusals.get(name) != refusal:
            _log.error("%s: the configuration of %s was rejected: %s", plan.name, name, reason)
        if plan is self._plan:
            self._refusals = {**self._refusals, name: refusal}
        return refusal.is_final


def _diff_connectors(plan: FlowPlan, member: FleetMember) -> dict[str, list[str]]:
    """Return the keys whose planned values differ from the stored configurations, by connector."""
    config = member.herder.get_config_state()
    differing: dict[str, list[str]] = {}
    for name, planned in plan.connectors.items():
        stored = _drop_null_values(config.config(name))
        if not dedicated_mode.can_connector_run(name, planned):
            if stored is not None:
                differing[name] = []
        elif stored is None or pause_and_throttle_overrides.strip_overrides(stored) != planned:
            differing[name] = dedicated_mode.diff_config_keys(
                planned, pause_and_throttle_overrides.strip_overrides(stored or {})
            )
    return differing


def _plan_config_write(plan: FlowPlan, name: str, member: FleetMember) -> HerderRequest | None:
    """Return the request that makes the stored configuration match the plan, or None if it already
    matches."""
    planned = plan.connectors[name]
    stored = _drop_null_values(member.herder.get_config_state().config(name))
    if not dedicated_mode.can_connector_run(name, planned):
        return None if stored is None else DeleteConnector(name)
    wanted = (
        pause_and_throttle_overrides.merge_overrides(planned, stored)
        if name == flow_connector_configs.SOURCE_CONNECTOR
        else dict(planned)
    )
    overrides = [
        f"{key}={value}"
        for key, value in pause_and_throttle_overrides.extract_overrides(wanted).items()
    ]
    if overrides:
        _log.info(
            ("%s: keeping settings that were changed at runtime: %s"),
            plan.name,
            ", ".join(overrides),
        )
    if stored == wanted:
        return None
    if stored is not None:
        keys = ", ".join(dedicated_mode.diff_config_keys(wanted, stored))
        _log.info("%s: updating the configuration of %s: %s", plan.name, name, keys)
    return PutConnector(connector=name, config=wanted)


# Messages


def _list_differing_keys(differing: Mapping[str, list[str]]) -> tuple[str, ...]:
    return tuple(f"{name}: {', '.join(keys)}" for name, keys in differing.items())


def _describe_difference_cause(differing: Mapping[str, list[str]]) -> str:
    """Return what differs between the nodes: "command line", "file", or "file or command line" if
    it may be either."""
    keys = {key for connector_keys in differing.values() for key in connector_keys}
    if keys and keys <= _COMMAND_LINE_KEYS:
        return "command line"
    return "file or command line" if keys and keys <= _COMMAND_LINE_OR_FILE_KEYS else "file"


def _describe_difference_remedy(differing: Mapping[str, list[str]]) -> str:
    what = _describe_difference_cause(differing)
    action = "reload it" if what == "file" else "restart it"
    return (
        f"uses a different {what}: give the leading node the same {what}, and {action}; the "
        "differences are: "
    ) + "; ".join(_list_differing_keys(differing))


def _drop_null_values(config: Mapping[str, str | None] | None) -> dict[str, str] | None:
    if config is None:
        return None
    return {key: value for key, value in config.items() if value is not None}
