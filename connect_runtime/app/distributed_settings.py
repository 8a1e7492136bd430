"""Settings of a distributed worker, read from ConnectDistributed's properties."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.app import rest_listeners, worker_settings
from connect_runtime.app.worker_settings import WorkerSettings, WorkerSettingsSource
from connect_runtime.config import properties_file, worker_config, worker_config_keys
from connect_runtime.config.properties_file import ErrorCollector, ResolvedProperties
from connect_runtime.config.worker_config import DistributedConfig, ExactlyOnceSourceMode
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.member_state import GroupRebalanceConfig
from connect_runtime.herder.group_session import GroupSessionSettings
from connect_runtime.herder.herder_state import HerderSettings
from connect_runtime.herder.session_keys import SessionKeySettings
from connect_runtime.kafka.kafka_worker_group import WorkerGroupSettings
from connect_runtime.network.connection_settings import ConnectionSettings
from connect_runtime.storage import internal_topic_settings
from connect_runtime.storage.internal_topic_settings import InvalidTopicSettings, RequiredTopics

_PROTOCOL_KEY, _SESSIONED = "connect.protocol", "sessioned"
_EXACTLY_ONCE_KEY = "exactly.once.source.support"
_IDLE_KEY, _REBALANCE_TIMEOUT_KEY = "connections.max.idle.ms", "rebalance.timeout.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedSettings(WorkerSettings):
    """Settings of a distributed worker."""

    config: DistributedConfig
    topics: RequiredTopics
    membership: GroupRebalanceConfig
    connect_protocol: ConnectProtocol
    """Newest protocol that this worker supports (`connect.protocol`)."""
    connections: ConnectionSettings
    """Settings for connections to the group coordinator."""

    def build_group_settings(self, *, worker_id: str, url: str) -> WorkerGroupSettings:
        """Build the settings of the worker group. `url` is the advertised URL, and `worker_id`
        its host:port."""
        return WorkerGroupSettings(
            session=GroupSessionSettings(
                membership=self.membership,
                url=url,
                protocol=self.connect_protocol,
                max_rebalance_delay_ms=round(self.config.rebalance_delay_s * 1000),
            ),
            connections=dataclasses.replace(
                self.connections, client_id=self.config.client_id or f"connect-{worker_id}"
            ),
            sampling=self.config.metrics.sampling,
        )


def read_settings(
    path: pathlib.Path, *, environment: Mapping[str, str] = os.environ
) -> DistributedSettings:
    """Read a distributed worker's properties file and import its plugins.

    Raises `SettingsError` with all problems.
    """
    source = WorkerSettingsSource(
        file=str(path), folder=pathlib.Path.cwd(), environment=environment
    )
    return parse_settings(properties_file.read_properties_text(path), source)


def parse_settings(content: str, source: WorkerSettingsSource) -> DistributedSettings:
    """Parse the content of a distributed worker's properties file and import its plugins.

    Raises `SettingsError` with all problems.
    """
    return _validate_and_build_settings(
        properties_file.parse_properties_file(
            content, file=source.file, folder=source.folder, environment=source.environment
        ),
        source,
        has_own_rest=True,
    )


def parse_fleet_worker_settings(
    properties: Mapping[str, str], source: WorkerSettingsSource
) -> DistributedSettings:
    """Parse the worker properties of one worker of a `WorkerFleet`, and import its plugins.

    The caller has derived `properties` from the file `source.file`, such as `mm2.properties`. The
    worker has no REST servers of its own. Raises `SettingsError` with all problems.
    """
    return _validate_and_build_settings(
        properties_file.resolve_properties(
            properties, file=source.file, folder=source.folder, environment=source.environment
        ),
        source,
        has_own_rest=False,
    )


def _validate_and_build_settings(
    given: ResolvedProperties, source: WorkerSettingsSource, *, has_own_rest: bool
) -> DistributedSettings:
    account, parts = worker_settings.read_common_settings(
        source, given, worker_config_keys.DISTRIBUTED
    )
    topics = _read_topic_settings(account)
    _validate_group_settings(account)
    if parts.rest.settings.basic_auth:
        _check_protocol_signs_requests(account)
    if has_own_rest:
        rest_listeners.warn_about_exposed_rest_api(account, parts.rest, in_group=True)
    warnings = account.raise_errors_or_get_warnings()
    assert topics is not None
    assert parts.security is not None
    config = worker_config.parse_distributed_config(parts.properties)
    found = worker_config_keys.DISTRIBUTED.parse(parts.properties)
    connections = worker_settings.build_connection_settings(parts.properties, found, parts.security)
    return DistributedSettings(
        **worker_settings.build_common_settings(source, parts, warnings),
        herder=_build_herder_settings(config),
        config=config,
        topics=topics,
        membership=_build_member_settings(config, connections),
        connect_protocol=ConnectProtocol[config.protocol.upper()],
        connections=connections,
    )


def _read_topic_settings(account: ErrorCollector) -> RequiredTopics | None:
    try:
        found = internal_topic_settings.read_required_topics(account.values)
    except InvalidTopicSettings as error:
        for key, text in error.problems:
            account.add_problem(key, text)
        return None
    for each in found.warnings:
        key, _, text = each.partition(" ")
        account.add_warning(key, text)
    return found


def _validate_group_settings(account: ErrorCollector) -> None:
    enabled = ExactlyOnceSourceMode.ENABLED.value
    if account.values.get(_EXACTLY_ONCE_KEY, "").strip().lower() == enabled:
        text = (
            "transactional writes of source records are not supported by this version: remove the"
        )
        account.add_problem(
            _EXACTLY_ONCE_KEY, f"{text} setting, or run such source connectors on Java workers"
        )
    if _uses_unsigned_protocol(account):
        account.add_warning(
            _PROTOCOL_KEY,
            "REQUESTS BETWEEN WORKERS ARE NOT SIGNED: anyone who can reach the REST API of a worker"
            " can set the task configurations of its connectors (KIP-507). Set connect.protocol="
            f"{_SESSIONED} once every worker of the group supports it (Kafka 2.4)",
        )
    if not account.invalid_keys & {_IDLE_KEY, _REBALANCE_TIMEOUT_KEY}:
        found = worker_config_keys.DISTRIBUTED.validate_all(account.values)
        idle_ms, rebalance_ms = found[_IDLE_KEY].value, found[_REBALANCE_TIMEOUT_KEY].value
        if 0 <= idle_ms < rebalance_ms:
            account.add_warning(
                _IDLE_KEY,
                f"is {idle_ms}, which is less than {_REBALANCE_TIMEOUT_KEY} ({rebalance_ms}): the "
                "connection to the group coordinator may be closed during a rebalance",
            )


def _uses_unsigned_protocol(account: ErrorCollector) -> bool:
    given = account.values.get(_PROTOCOL_KEY, _SESSIONED).strip().lower()
    return given in worker_config_keys.PROTOCOLS and given != _SESSIONED


def _check_protocol_signs_requests(account: ErrorCollector) -> None:
    """Report a problem if `connect.protocol` does not sign requests between workers.

    Called only if basic authentication is enabled. Requests between workers need no password, so
    they must be signed. Otherwise, anyone could send such a request without a password.
    """
    if _uses_unsigned_protocol(account):
        account.add_problem(
            _PROTOCOL_KEY,
            "does not sign requests between workers, so anyone could send such requests and bypass"
            " basic authentication (rest.extension.classes): set"
            f" {_PROTOCOL_KEY}={_SESSIONED} on all workers of the group",
            allowed=_SESSIONED,
        )


def _build_herder_settings(config: DistributedConfig) -> HerderSettings:
    return HerderSettings(
        sync_timeout_s=config.sync_timeout_s,
        sync_retry_backoff_s=config.sync_retry_backoff_s,
        rebalance_delay_max_s=config.rebalance_delay_s,
        topics_tracked=config.topic_tracking,
        session_keys=SessionKeySettings(
            ttl_ms=round(config.key_ttl_s * 1000),
            generation_algorithm=config.key_algorithm,
            key_size_bits=config.key_size,
            signature_algorithm=config.signature_algorithm,
            verification_algorithms=config.verification_algorithms,
        ),
    )


def _build_member_settings(
    config: DistributedConfig, connections: ConnectionSettings
) -> GroupRebalanceConfig:
    return GroupRebalanceConfig(
        group_id=config.group_id,
        session_timeout_s=config.session_timeout_s,
        rebalance_timeout_s=config.rebalance_timeout_s,
        heartbeat_interval_s=config.heartbeat_interval_s,
        retry_backoff_s=connections.retry_backoff_s,
        retry_backoff_max_s=connections.retry_backoff_max_s,
        request_timeout_s=connections.request_timeout_s,
        rebalance_delay_s=config.rebalance_delay_s,
    )
