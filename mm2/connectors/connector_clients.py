"""Clients of a mirror connector, as its own configuration says how to reach its clusters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from connect_runtime.api import errors
from connect_runtime.base import clock as base_clock
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.wire.connection import store_files
from mm2.cluster import (
    admin,
    flow_log_topics,
    kafka_acls,
    kafka_admin,
    kafka_groups,
    kafka_logs,
    topic_reader,
)
from mm2.connectors import operators
from mm2.core import commands
from mm2.core.configs import client_keys, connector_configs, roles


class MakeAdmin(Protocol):
    """`admin_of`; tests have their own."""

    def __call__(
        self,
        common: connector_configs.Common,
        role: roles.Role,
        *,
        use: str,
        clock: base_clock.Clock,
    ) -> admin.Admin: ...


def admin_of(
    common: connector_configs.Common,
    role: roles.Role,
    *,
    use: str,
    clock: base_clock.Clock,
    task: int | str | None = None,
    gone: Callable[[], bool] = lambda: False,
) -> kafka_admin.KafkaAdmin:
    """Administers the cluster of `role`; `use` is the end of its `client.id` in Java, `task` the
    number of whose it is. Once `gone`, its calls end soon.

    Nothing is asked of the cluster yet. Relative paths of certificates are below the working
    directory. Raises `FatalError` that names every setting that cannot be honoured.
    """
    access, client_id = _access(common, role, use=use, task=task)
    return kafka_admin.KafkaAdmin(access, client_id=client_id, clock=clock, gone=gone)


def acls_of(
    common: connector_configs.Common,
    role: roles.Role,
    *,
    use: str,
    clock: base_clock.Clock,
    gone: Callable[[], bool],
) -> kafka_acls.KafkaAcls:
    """As `admin_of`, of ACLs."""
    access, client_id = _access(common, role, use=use, task=None)
    return kafka_acls.KafkaAcls(access, client_id=client_id, clock=clock, gone=gone)


def log_topics_of(
    common: connector_configs.Common,
    role: roles.Role,
    cluster: admin.Admin,
    *,
    replication_factor: int | None,
    clock: base_clock.Clock,
) -> flow_log_topics.LogTopics:
    """Makes and checks a flow's own topics through `cluster`, which is that of `role`."""
    access, _ = _access(common, role, use="", task=None)
    return flow_log_topics.LogTopics(
        target=cluster,
        where=access.where,
        bootstrap=",".join(access.bootstrap),
        secured=access.security.protocol != "PLAINTEXT",
        replication_factor=replication_factor,
        clock=clock,
    )


def operator_of(common: connector_configs.Common) -> commands.Operator:
    """Who reads the source and who administers the target, for telling people what to type."""
    source, _ = _access(common, roles.SOURCE_CONSUMER, use="", task=None)
    target, _ = _access(common, roles.TARGET_ADMIN, use="", task=None)
    return operators.of(source=source, target=target, connector=common.name)


def groups_of(
    common: connector_configs.Common,
    role: roles.Role,
    *,
    use: str,
    clock: base_clock.Clock,
    task: int | str | None = None,
    gone: Callable[[], bool],
) -> kafka_groups.KafkaGroups:
    """As `admin_of`, of consumer groups."""
    access, client_id = _access(common, role, use=use, task=task)
    return kafka_groups.KafkaGroups(access, client_id=client_id, clock=clock, gone=gone)


def logs_of(
    common: connector_configs.Common,
    role: roles.Role,
    *,
    use: str,
    clock: base_clock.Clock,
    task: int | str | None = None,
) -> kafka_logs.KafkaLogs:
    """As `admin_of`, of where partitions end."""
    access, client_id = _access(common, role, use=use, task=task)
    return kafka_logs.KafkaLogs(access, client_id=client_id, clock=clock)


def reader_of(
    common: connector_configs.Common,
    role: roles.Role,
    *,
    use: str,
    clock: base_clock.Clock,
    task: int | str | None = None,
    topic: str,
    partitions: int = 1,
) -> topic_reader.TopicReader:
    """As `admin_of`; reads a topic of so many partitions."""
    access, client_id = _access(common, role, use=use, task=task)
    return topic_reader.TopicReader(
        access, client_id=client_id, topics=[topic], partitions=partitions, clock=clock
    )


def _access(
    common: connector_configs.Common, role: roles.Role, *, use: str, task: int | str | None
) -> tuple[kafka_access.Access, str]:
    """With the `client.id`."""
    properties = dict(common.client(role, use, task=task))
    if not properties.get(client_keys.BOOTSTRAP, "").strip():
        raise errors.ConfigError(
            f"connector {common.name}: {role.cluster_prefix}{client_keys.BOOTSTRAP} is missing; "
            "name one broker at least, as host:port"
        )
    alias = common.source if role.side == "source" else common.target
    access = kafka_access.parse(properties, files=store_files.below(Path()), name=alias)
    return access, properties[roles.CLIENT_ID]
