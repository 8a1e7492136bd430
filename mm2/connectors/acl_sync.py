"""Copies ACLs for read access from source topics to their mirror topics
(`sync.topic.acls.enabled`).

A source cluster without an authorizer has no ACLs. In this case ACL sync is skipped, which is
logged once.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.kafka.client_errors import NotAuthorizedError
from mm2 import suggested_commands
from mm2.connectors.rate_limited_error_logging import RateLimitedWarnings
from mm2.kafka.kafka_client_interfaces import AclAdmin, NoAuthorizerError
from mm2.suggested_commands import OperatorCommands
from mm2.topics import acl_sync_plan
from mm2.topics.acl_sync_plan import AclPlan, TopicAcl
from mm2.topics.flow_config import Flow

READING_ACLS = "reading ACLs"
WRITING_ACLS = "creating ACLs"
LIMITING_ACLS = "limiting ACLs"
LOGGED_ACLS_MAX = 20
"""Maximum number of created ACLs that one sync logs individually."""

_LOG = logging.getLogger(__name__)
_CLUSTERS_WITHOUT_AUTHORIZER: set[str] = set()
"""Clusters that have no authorizer. For each of them, the process logs only once that ACL sync was
skipped, even if connectors are restarted."""


class AclSync:
    """Plans and creates the ACLs of a flow's mirror topics. Not thread-safe."""

    def __init__(
        self,
        flow: Flow,
        *,
        source: AclAdmin,
        target: AclAdmin,
        clock: Clock,
        operator: OperatorCommands = suggested_commands.GENERIC_COMMANDS,
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._clock = clock
        self._operator = operator
        self._warnings = RateLimitedWarnings(_LOG, clock=clock)

    def close(self) -> None:
        self._source.close()
        self._target.close()

    def sync_acls(self, mirrored_topics: Collection[str], timeout_s: float) -> AclPlan | None:
        """Create the missing ACLs of the mirror topics on the target.

        `mirrored_topics` are the source topics that the flow mirrors. Returns the plan, which lists
        the ACLs to create, or None if the source's ACLs cannot be read. Authorization errors are
        logged. Raises `RetriableError` if a cluster does not respond, and `AuthenticationError` if
        a cluster rejects the credentials.
        """
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        acls = self._read_source_acls(timeout_s)
        if acls is None:
            return None
        plan = acl_sync_plan.plan_acls(
            self._flow,
            acls,
            self._read_target_acls(end),
            mirrored_topics=mirrored_topics,
            acls_max=acl_sync_plan.MIRROR_ACLS_MAX,
        )
        self._report_acl_limit(plan)
        if plan.create:
            self._create_acls(plan, end)
        return plan

    def _report_acl_limit(self, plan: AclPlan) -> None:
        if not plan.beyond_limit:
            self._warnings.reset(LIMITING_ACLS)
            return
        self._warnings.warn(
            LIMITING_ACLS,
            f"{plurals.format_count(plan.beyond_limit, 'ACL', 'are')} not copied from "
            f"{self._flow.source}, because the mirror topics of a flow may have at most "
            f"{acl_sync_plan.MIRROR_ACLS_MAX} ACLs: remove unneeded ACLs from the source and from "
            "the mirror topics",
        )

    def _read_source_acls(self, timeout_s: float) -> list[TopicAcl] | None:
        try:
            acls = self._source.list_topic_acls(timeout_s)
        except NoAuthorizerError:
            self._log_missing_authorizer(self._flow.source)
            return None
        except NotAuthorizedError as error:
            grant_command = self._operator.source.build_allow_cluster_command("Describe")
            self._warnings.warn(
                READING_ACLS, f"{error}. {suggested_commands.format_remedy(grant_command)}"
            )
            return None
        self._warnings.reset(READING_ACLS)
        return acls

    def _read_target_acls(self, end: Deadline) -> list[TopicAcl] | None:
        """Read the target's ACLs. Returns None if mm2 is not authorized to read them; then all
        planned ACLs are created without checking which exist."""
        try:
            return self._target.list_topic_acls(end.remaining_s(self._clock.now_s()))
        except (NoAuthorizerError, NotAuthorizedError):
            return None

    def _create_acls(self, planned: AclPlan, end: Deadline) -> None:
        refused = self._target.create_acls(planned.create, end.remaining_s(self._clock.now_s()))
        created = [each for each in planned.create if each not in refused]
        for each in created[:LOGGED_ACLS_MAX]:
            _LOG.info("created mirror topic ACL: %.400s", each)
        if len(created) > LOGGED_ACLS_MAX:
            _LOG.info("created %d more mirror topic ACLs", len(created) - LOGGED_ACLS_MAX)
        if not refused:
            self._warnings.reset(WRITING_ACLS)
            return
        first = refused[min(refused)]
        if isinstance(first, NoAuthorizerError):
            self._log_missing_authorizer(self._flow.target)
            return
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        grant_command = self._operator.target.build_allow_cluster_command("Alter", "Describe")
        is_denied = isinstance(first, NotAuthorizedError)
        remedy = f". {suggested_commands.format_remedy(grant_command)}" if is_denied else ""
        self._warnings.warn(WRITING_ACLS, f"{first!s:.1000}{more}{remedy}")

    def _log_missing_authorizer(self, cluster: str) -> None:
        if cluster not in _CLUSTERS_WITHOUT_AUTHORIZER:
            _CLUSTERS_WITHOUT_AUTHORIZER.add(cluster)
            _LOG.info(
                "ACL sync skipped: %s has no authorizer (set sync.topic.acls.enabled=false to "
                "silence this)",
                cluster,
            )
