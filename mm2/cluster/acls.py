"""Port: the ACLs of a cluster's topics, read and added to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from connect_runtime.base import errors
from mm2.core.topics import acls


class Acls(Protocol):
    """One cluster's. One thread at a time calls; every call takes the seconds it may last.

    Besides what each says, all raise as `admin.Admin`.
    """

    def of_topics(self, timeout_s: float) -> list[acls.Acl]:
        """All of topics, whatever their pattern. Needs DESCRIBE on the cluster.

        Raises `NoAuthorizerError` where brokers keep none, and `NotAuthorizedError`.
        """

    def create(
        self, wanted: Collection[acls.Acl], timeout_s: float
    ) -> Mapping[acls.Acl, errors.ConnectError]:
        """Add these; one that is there already is fine. What is refused, with the answer.

        Needs ALTER on the cluster.
        """

    def close(self) -> None:
        """Let go of the connections."""
