"""ACLs for one user of a secure sandbox cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import admin

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import kafka

Rights = Mapping[tuple[str, str], Sequence[str]]
"""By kind of resource and the prefix of its name (of all where it is `*`): operations."""
_LITERAL, _PREFIXED = admin.ResourcePatternType.LITERAL, admin.ResourcePatternType.PREFIXED


def allow(on: SandboxCluster, user: str, rights: Rights) -> None:
    bindings = [
        admin.AclBinding(
            admin.ResourceType[kind],
            name,
            _LITERAL if kind == "BROKER" or name == "*" else _PREFIXED,
            f"User:{user}",
            "*",
            admin.AclOperation[operation],
            admin.AclPermissionType.ALLOW,
        )
        for (kind, name), operations_ in rights.items()
        for operation in operations_
    ]
    kafka.create_acls(on.client_properties(), bindings)
