"""ACLs of source topics are copied to their mirrors, as often as is asked.

`core/topics/acls` decides as Java's `MirrorSourceConnector.syncTopicAcls`. A source without an
authorizer has none, which is logged once.
"""

from __future__ import annotations

import logging

from connect_runtime.base import clock, deadline
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import acls as port
from mm2.cluster import errors as cluster_errors
from mm2.connectors import complaints
from mm2.core import commands, flows
from mm2.core.topics import acls

READING = "reading ACLs"
WRITING = "copying ACLs"

_LOG = logging.getLogger(__name__)
_WITHOUT: set[str] = set()
"""Clusters without an authorizer: that is logged once by this process, however often connectors
are started again."""


class AclSync:
    """Talks to both clusters; one thread at a time."""

    def __init__(
        self,
        flow: flows.Flow,
        *,
        source: port.Acls,
        target: port.Acls,
        now: clock.Clock,
        operator: commands.Operator = commands.NOBODY,
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._clock = now
        self._operator = operator
        self._complaints = complaints.Complaints(_LOG, clock=now)

    def close(self) -> None:
        self._source.close()
        self._target.close()

    def sync(self, timeout_s: float) -> acls.AclPlan | None:
        """What was to be created; None: the source's ACLs cannot be read. What is refused is told.

        Raises `RetriableError` where a cluster does not answer, and `AuthenticationError`.
        """
        end = deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        found = self._of_source(timeout_s)
        if found is None:
            return None
        planned = acls.plan(self._flow, found, self._of_target(end))
        if planned.create:
            self._create(planned, end)
        return planned

    def _of_source(self, timeout_s: float) -> list[acls.Acl] | None:
        try:
            found = self._source.of_topics(timeout_s)
        except cluster_errors.NoAuthorizerError:
            self._tell_without(self._flow.source)
            return None
        except kafka_errors.NotAuthorizedError as error:
            right = self._operator.source.allow_cluster("Describe")
            self._complaints.say(READING, f"{error}. {commands.to_go_on(right)}")
            return None
        self._complaints.over(READING)
        return found

    def _of_target(self, end: deadline.Deadline) -> list[acls.Acl] | None:
        """None: they are not shown, which keeps nobody from adding to them."""
        try:
            return self._target.of_topics(end.left_s(self._clock.now_s()))
        except (cluster_errors.NoAuthorizerError, kafka_errors.NotAuthorizedError):
            return None

    def _create(self, planned: acls.AclPlan, end: deadline.Deadline) -> None:
        refused = self._target.create(planned.create, end.left_s(self._clock.now_s()))
        for each in planned.create:
            if each not in refused:
                _LOG.info("ACL of a mirror topic: %s", each)
        if not refused:
            self._complaints.over(WRITING)
            return
        first = refused[min(refused)]
        if isinstance(first, cluster_errors.NoAuthorizerError):
            self._tell_without(self._flow.target)
            return
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        right = self._operator.target.allow_cluster("Alter", "Describe")
        lacking = isinstance(first, kafka_errors.NotAuthorizedError)
        told = f". {commands.to_go_on(right)}" if lacking else ""
        self._complaints.say(WRITING, f"{first}{more}{told}")

    def _tell_without(self, cluster: str) -> None:
        if cluster not in _WITHOUT:
            _WITHOUT.add(cluster)
            _LOG.info(
                "%s has no authorizer: no ACLs are copied (sync.topic.acls.enabled=false would not "
                "ask)",
                cluster,
            )
