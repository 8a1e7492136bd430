"""Copies ACLs of source topics to their mirror topics (`sync.topic.acls.enabled`).

A source without an authorizer has no ACLs; this is logged once.
"""

from __future__ import annotations

import logging

from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka.client_errors import NotAuthorizedError
from mm2 import operator_commands
from mm2.connectors.stall_log import RateLimitedWarnings
from mm2.kafka.client_interfaces import AclAdmin, NoAuthorizerError
from mm2.operator_commands import OperatorCommands
from mm2.topics import acl_plan
from mm2.topics.acl_plan import AclPlan, TopicAcl
from mm2.topics.flow_config import Flow

READING_ACLS = "reading ACLs"
WRITING_ACLS = "copying ACLs"

_LOG = logging.getLogger(__name__)
_FLOWS_WITHOUT_AUTHORIZER: set[str] = set()
"""Clusters without an authorizer: that is logged once by this process, however often connectors
are started again."""


class AclSync:
    """Talks to both clusters; one thread at a time."""

    def __init__(
        self,
        flow: Flow,
        *,
        source: AclAdmin,
        target: AclAdmin,
        now: Clock,
        operator: OperatorCommands = operator_commands.GENERIC_COMMANDS,
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._clock = now
        self._operator = operator
        self._complaints = RateLimitedWarnings(_LOG, clock=now)

    def close(self) -> None:
        self._source.close()
        self._target.close()

    def sync(self, timeout_s: float) -> AclPlan | None:
        """What was to be created; None: the source's ACLs cannot be read. What is refused is told.

        Raises `RetriableError` where a cluster does not answer, and `AuthenticationError`.
        """
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        found = self._of_source(timeout_s)
        if found is None:
            return None
        planned = acl_plan.plan_acls(self._flow, found, self._of_target(end))
        if planned.create:
            self._create(planned, end)
        return planned

    def _of_source(self, timeout_s: float) -> list[TopicAcl] | None:
        try:
            found = self._source.of_topics(timeout_s)
        except NoAuthorizerError:
            self._tell_without(self._flow.source)
            return None
        except NotAuthorizedError as error:
            right = self._operator.source.allow_cluster("Describe")
            self._complaints.say(READING_ACLS, f"{error}. {operator_commands.format_remedy(right)}")
            return None
        self._complaints.over(READING_ACLS)
        return found

    def _of_target(self, end: Deadline) -> list[TopicAcl] | None:
        """None: they are not shown, which keeps nobody from adding to them."""
        try:
            return self._target.of_topics(end.left_s(self._clock.now_s()))
        except (NoAuthorizerError, NotAuthorizedError):
            return None

    def _create(self, planned: AclPlan, end: Deadline) -> None:
        refused = self._target.create(planned.create, end.left_s(self._clock.now_s()))
        for each in planned.create:
            if each not in refused:
                _LOG.info("ACL of a mirror topic: %s", each)
        if not refused:
            self._complaints.over(WRITING_ACLS)
            return
        first = refused[min(refused)]
        if isinstance(first, NoAuthorizerError):
            self._tell_without(self._flow.target)
            return
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        right = self._operator.target.allow_cluster("Alter", "Describe")
        lacking = isinstance(first, NotAuthorizedError)
        told = f". {operator_commands.format_remedy(right)}" if lacking else ""
        self._complaints.say(WRITING_ACLS, f"{first}{more}{told}")

    def _tell_without(self, cluster: str) -> None:
        if cluster not in _FLOWS_WITHOUT_AUTHORIZER:
            _FLOWS_WITHOUT_AUTHORIZER.add(cluster)
            _LOG.info(
                "%s has no authorizer: no ACLs are copied (sync.topic.acls.enabled=false would not "
                "ask)",
                cluster,
            )
