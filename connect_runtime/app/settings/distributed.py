"""The settings of a worker in a group: the properties that ConnectDistributed takes."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.adapters.kafka import group as kafka_group
from connect_runtime.app.settings import account as accounts
from connect_runtime.app.settings import (
    brokers,
    properties_file,
    rest_exposure,
    worker,
    worker_reader,
)
from connect_runtime.core.assignment import protocol
from connect_runtime.core.herder import memory, participation, session_keys
from connect_runtime.core.membership import settings as membership
from connect_runtime.core.state import topic_settings
from connect_runtime.core.task import worker_config, worker_keys
from connect_runtime.wire.connection import settings as connection_settings

_PROTOCOL, _SESSIONED = "connect.protocol", "sessioned"
_EXACTLY_ONCE = "exactly.once.source.support"
_IDLE, _REBALANCE = "connections.max.idle.ms", "rebalance.timeout.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(worker.WorkerSettings):
    """`connections`: how the group's coordinator is reached; `offers`: `connect.protocol`."""

    config: worker_config.DistributedConfig
    topics: topic_settings.Wanted
    membership: membership.Settings
    offers: protocol.Protocol
    connections: connection_settings.ConnectionSettings

    def group(self, *, worker_id: str, url: str) -> kafka_group.Settings:
        """Once the REST API listens: `url` is what other workers are told, `worker_id` host:port
        of it."""
        return kafka_group.Settings(
            part=participation.Settings(
                membership=self.membership,
                url=url,
                offers=self.offers,
                delay_max_ms=round(self.config.rebalance_delay_s * 1000),
            ),
            connections=dataclasses.replace(
                self.connections, client_id=self.config.client_id or f"connect-{worker_id}"
            ),
            sampling=self.config.metrics.sampling,
        )


def read(path: pathlib.Path, *, environment: Mapping[str, str] = os.environ) -> Settings:
    """From a file, whose plugins are imported. Raises `SettingsError` with all that is wrong."""
    source = worker_reader.Source(
        file=str(path), folder=pathlib.Path.cwd(), environment=environment
    )
    return parse(properties_file.text(path), source)


def parse(content: str, source: worker_reader.Source) -> Settings:
    """As `read`, of text that is already at hand."""
    return _judged(
        properties_file.parse(
            content, file=source.file, folder=source.folder, environment=source.environment
        ),
        source,
        has_own_rest=True,
    )


def derived(properties: Mapping[str, str], source: worker_reader.Source) -> Settings:
    """As `read`, of properties that were derived from the source's file, for a worker of a
    `fleet`, whose REST servers are not its own."""
    return _judged(
        properties_file.given(
            properties, file=source.file, folder=source.folder, environment=source.environment
        ),
        source,
        has_own_rest=False,
    )


def _judged(
    given: properties_file.Given, source: worker_reader.Source, *, has_own_rest: bool
) -> Settings:
    account, parts = worker_reader.read(source, given, worker_keys.DISTRIBUTED)
    topics = _topics(account)
    _judge(account)
    if parts.rest.settings.basic_auth:
        _judge_protocol_under_basic_auth(account)
    if has_own_rest:
        rest_exposure.warn(account, parts.rest, in_group=True)
    warnings = account.finish()
    assert topics is not None
    assert parts.safety is not None
    config = worker_config.distributed(parts.properties)
    found = worker_keys.DISTRIBUTED.parse(parts.properties)
    connections = brokers.connections(parts.properties, found, parts.safety)
    return Settings(
        **worker_reader.settings(source, parts, warnings),
        herder=_herder(config),
        config=config,
        topics=topics,
        membership=_membership(config, connections),
        offers=protocol.Protocol[config.protocol.upper()],
        connections=connections,
    )


def _topics(account: accounts.Account) -> topic_settings.Wanted | None:
    try:
        found = topic_settings.wanted(account.values)
    except topic_settings.BadTopicSettings as error:
        for key, text in error.problems:
            account.refuse(key, text)
        return None
    for each in found.warnings:
        key, _, text = each.partition(" ")
        account.warn(key, text)
    return found


def _judge(account: accounts.Account) -> None:
    enabled = worker_config.ExactlyOnce.ENABLED.value
    if account.values.get(_EXACTLY_ONCE, "").strip().lower() == enabled:
        text = "this version writes no source's records in transactions: remove it, or run the"
        account.refuse(_EXACTLY_ONCE, f"{text} sources that need it elsewhere")
    if _is_unsigned(account):
        account.warn(
            _PROTOCOL,
            "REQUESTS BETWEEN WORKERS ARE NOT SIGNED: anyone who can reach the REST API of a worker"
            " can set the task configurations of its connectors (KIP-507). Set connect.protocol="
            f"{_SESSIONED} once every worker of the group supports it (Kafka 2.4)",
        )
    if not account.wrong & {_IDLE, _REBALANCE}:
        found = worker_keys.DISTRIBUTED.validate_all(account.values)
        idle_ms, rebalance_ms = found[_IDLE].value, found[_REBALANCE].value
        if 0 <= idle_ms < rebalance_ms:
            account.warn(
                _IDLE,
                f"is {idle_ms} and less than {_REBALANCE}, {rebalance_ms}: the connection to the"
                " group's coordinator may be closed while a rebalance goes on",
            )


def _is_unsigned(account: accounts.Account) -> bool:
    given = account.values.get(_PROTOCOL, _SESSIONED).strip().lower()
    return given in worker_keys.PROTOCOLS and given != _SESSIONED


def _judge_protocol_under_basic_auth(account: accounts.Account) -> None:
    """Older protocols sign no internal requests, which would need no password all the same."""
    if _is_unsigned(account):
        account.refuse(
            _PROTOCOL,
            "does not sign requests between workers, so anyone could send them without a password:"
            f" with basic authentication (rest.extension.classes) use {_SESSIONED} on all workers"
            " of the group",
            allowed=_SESSIONED,
        )


def _herder(config: worker_config.DistributedConfig) -> memory.HerderSettings:
    return memory.HerderSettings(
        sync_timeout_s=config.sync_timeout_s,
        unsync_backoff_s=config.unsync_backoff_s,
        rebalance_delay_max_s=config.rebalance_delay_s,
        topics_tracked=config.topic_tracking,
        session_keys=session_keys.KeySettings(
            ttl_ms=round(config.key_ttl_s * 1000),
            generation_algorithm=config.key_algorithm,
            size_bits=config.key_size,
            signature_algorithm=config.signature_algorithm,
            verification_algorithms=config.verification_algorithms,
        ),
    )


def _membership(
    config: worker_config.DistributedConfig, connections: connection_settings.ConnectionSettings
) -> membership.Settings:
    return membership.Settings(
        group_id=config.group_id,
        session_timeout_s=config.session_timeout_s,
        rebalance_timeout_s=config.rebalance_timeout_s,
        heartbeat_interval_s=config.heartbeat_interval_s,
        retry_backoff_s=connections.retry_backoff_s,
        retry_backoff_max_s=connections.retry_backoff_max_s,
        request_timeout_s=connections.request_timeout_s,
        rebalance_delay_s=config.rebalance_delay_s,
    )
