"""A cluster's ACLs in memory, and an `acls.Acls` over them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect_runtime.base.errors import ConnectError
from mm2.kafka.kafka_client_interfaces import NoAuthorizerError
from mm2.topics import acl_sync_plan
from mm2.topics.acl_sync_plan import TopicAcl


@dataclass
class FakeAclCluster:
    """`authorizer`: does it keep ACLs? `reading` and `writing` are what the calls raise, if any;
    `refused` what single ones get, by the topic's name, `refuse_all` all others."""

    bindings: set[TopicAcl] = field(default_factory=set)
    authorizer: bool = True
    reading: ConnectError | None = None
    writing: ConnectError | None = None
    refused: dict[str, ConnectError] = field(default_factory=dict)
    refuse_all: ConnectError | None = None
    created: list[TopicAcl] = field(default_factory=list)


class FakeAcls:
    """Implements `acls.Acls`."""

    def __init__(self, cluster: FakeAclCluster) -> None:
        self._cluster = cluster
        self.closed = False

    def list_topic_acls(self, timeout_s: float) -> list[TopicAcl]:
        self._authorizer()
        if self._cluster.reading is not None:
            raise self._cluster.reading
        return sorted(
            each for each in self._cluster.bindings if each.resource == acl_sync_plan.TOPIC
        )

    def create_acls(
        self, wanted: Collection[TopicAcl], timeout_s: float
    ) -> Mapping[TopicAcl, ConnectError]:
        if self._cluster.writing is not None:
            raise self._cluster.writing
        refused: dict[TopicAcl, ConnectError] = {}
        for each in wanted:
            failure = self._cluster.refused.get(each.name, self._cluster.refuse_all)
            if failure is None and not self._cluster.authorizer:
                failure = _none()
            if failure is not None:
                refused[each] = failure
                continue
            self._cluster.bindings.add(each)
            self._cluster.created.append(each)
        return refused

    def close(self) -> None:
        self.closed = True

    def _authorizer(self) -> None:
        if not self._cluster.authorizer:
            raise _none()


def _none() -> NoAuthorizerError:
    return NoAuthorizerError("no authorizer (SECURITY_DISABLED)")
