"""Findings about broker settings that conflict with the requirements of a flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from connect_runtime.base import plurals
from mm2.preflight.check_report import CheckArea, CheckFinding, CheckSeverity

BrokerConfigs = Mapping[str, str | None]

TRANSACTION_TIMEOUT_MS = 60_000
"""Transaction timeout in milliseconds for fencing and for replication in transactions."""
_AUTO_CREATE = "auto.create.topics.enable"
_MAX_TRANSACTION_TIMEOUT_KEY = "transaction.max.timeout.ms"
_PRODUCER_EXPIRATIONS = ("producer.id.expiration.ms", "transactional.id.expiration.ms")
_MIN_IN_SYNC_REPLICAS = "min.insync.replicas"
_DEFAULT_REPLICATION_FACTOR = "default.replication.factor"
_UNCLEAN_ELECTION = "unclean.leader.election.enable"
_STATE_TOPIC_FACTORS = {
    "transaction.state.log.replication.factor": "__transaction_state",
    "offsets.topic.replication.factor": "__consumer_offsets",
}
_SESSION_TIMEOUT_LIMITS = ("group.min.session.timeout.ms", "group.max.session.timeout.ms")
_RETENTION_KEYS = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_RETENTION_UNITS_MS = (1, 60_000, 3_600_000)
BROKER_SETTINGS = (
    *(_AUTO_CREATE, _MAX_TRANSACTION_TIMEOUT_KEY, *_PRODUCER_EXPIRATIONS),
    *(
        _MIN_IN_SYNC_REPLICAS,
        _DEFAULT_REPLICATION_FACTOR,
        _UNCLEAN_ELECTION,
        *_STATE_TOPIC_FACTORS,
        *_SESSION_TIMEOUT_LIMITS,
        *_RETENTION_KEYS,
    ),
)
"""Names of the broker settings that the check reads."""

_SHORT_EXPIRATION_MS = 3_600_000
_RECOMMENDED_REPLICAS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetBrokers:
    """Properties of the target's brokers that are relevant to the check."""

    alias: str
    brokers: int
    configs: BrokerConfigs | None
    """Values of `BROKER_SETTINGS` from one broker; None if mm2 is not authorized to read them."""
    topics: frozenset[str]
    """Names of all existing topics."""
    factor: int
    """Value of `replication.factor` of the flow; -1 for the brokers' default."""
    session_ms: int
    """Value of the worker's `session.timeout.ms`."""


def check_clusters_differ(
    flow: str, source_id: str, target_id: str, *, renames: bool
) -> Iterator[CheckFinding]:
    """Report a flow whose source and target are the same cluster. `renames` is True if mirror
    topics have other names than their source topics."""
    if not source_id or source_id != target_id:
        return
    severity = CheckSeverity.WARNING if renames else CheckSeverity.FAILED
    yield CheckFinding(
        subject=flow,
        area=CheckArea.SETTINGS,
        severity=severity,
        code="same-cluster",
        text=f"both aliases refer to the same cluster ({source_id})",
        effect="every topic is mirrored on the same cluster"
        if renames
        else "every topic would be replicated to itself, so nothing is replicated",
        fix="correct bootstrap.servers of one of the two clusters",
    )


def check_target_brokers(flow: str, target: TargetBrokers) -> Iterator[CheckFinding]:
    """Report all broker settings that conflict with the flow."""
    told = _TargetBrokerCheck(flow, target, target.configs or {})
    yield from told.check_replication_factor()
    yield from told.check_min_insync_replicas()
    yield from told.check_state_topic_replication_factors()
    yield from told.check_transaction_timeout()
    yield from told.check_producer_expiration()
    yield from told.check_session_timeout()
    yield from told.check_risky_settings()


@dataclass(frozen=True, slots=True)
class _TargetBrokerCheck:
    flow: str
    target: TargetBrokers
    configs: BrokerConfigs

    def check_replication_factor(self) -> Iterator[CheckFinding]:
        wanted, key = self._get_mirror_replication_factor()
        brokers = self.target.brokers
        if wanted == 1 and brokers >= _RECOMMENDED_REPLICAS:
            yield self._build_finding(
                "replication-factor-one",
                f"{key} is 1, {self.target.alias} has {plurals.format_count(brokers, 'broker')}",
                effect="if any broker is lost, records of mirror topics are lost",
                fix=f"set replication.factor of {self.flow} to {_RECOMMENDED_REPLICAS}",
                severity=CheckSeverity.WARNING,
            )

    def check_min_insync_replicas(self) -> Iterator[CheckFinding]:
        wanted, key = self._get_mirror_replication_factor()
        needed = self._get_integer_config(_MIN_IN_SYNC_REPLICAS)
        if wanted is None or needed is None or needed < wanted or needed == 1:
            return
        refuses = needed > wanted
        yield self._build_finding(
            "min-insync",
            f"{_MIN_IN_SYNC_REPLICAS} is {needed} on {self.target.alias}, {key} is {wanted}",
            effect="every batch is rejected (NOT_ENOUGH_REPLICAS)"
            if refuses
            else "batches are rejected when a single broker is down",
            fix=f"set replication.factor of {self.flow} above {needed}, or "
            f"{_MIN_IN_SYNC_REPLICAS} below replication.factor",
            severity=CheckSeverity.FAILED if refuses else CheckSeverity.WARNING,
        )

    def check_state_topic_replication_factors(self) -> Iterator[CheckFinding]:
        brokers = plurals.format_count(self.target.brokers, "broker")
        for name, topic in _STATE_TOPIC_FACTORS.items():
            wanted = self._get_integer_config(name)
            if wanted is None or wanted <= self.target.brokers or topic in self.target.topics:
                continue
            yield self._build_finding(
                "broker-state-factor",
                f"{name} is {wanted}, {self.target.alias} has {brokers}",
                effect=f"{topic} cannot be created: consumer groups and transactions do not work",
                fix=f"set {name} to at most {self.target.brokers} on the brokers",
            )

    def check_transaction_timeout(self) -> Iterator[CheckFinding]:
        longest = self._get_integer_config(_MAX_TRANSACTION_TIMEOUT_KEY)
        if longest is not None and longest < TRANSACTION_TIMEOUT_MS:
            yield self._build_finding(
                "transaction-timeout",
                f"{_MAX_TRANSACTION_TIMEOUT_KEY} is {longest} on {self.target.alias}",
                effect=f"transactions with a timeout of {TRANSACTION_TIMEOUT_MS} ms are rejected: "
                "fencing fails",
                fix=f"set {_MAX_TRANSACTION_TIMEOUT_KEY} to at least {TRANSACTION_TIMEOUT_MS} "
                "on the brokers",
            )

    def check_producer_expiration(self) -> Iterator[CheckFinding]:
        for name in _PRODUCER_EXPIRATIONS:
            known = self._get_integer_config(name)
            if known is not None and known < _SHORT_EXPIRATION_MS:
                yield self._build_finding(
                    "producer-expiration",
                    f"{name} is {known} on {self.target.alias}",
                    effect=(
                        "brokers expire producer ids early: records older than half of the "
                        "expiration time must be replicated in transactions, and partitions must "
                        "be fenced again"
                    ),
                    fix=f"set {name} to at least {_SHORT_EXPIRATION_MS} on the brokers",
                    severity=CheckSeverity.WARNING,
                )

    def check_session_timeout(self) -> Iterator[CheckFinding]:
        least, most = map(self._get_integer_config, _SESSION_TIMEOUT_LIMITS)
        given = self.target.session_ms
        if (least is not None and given < least) or (most is not None and given > most):
            yield self._build_finding(
                "session-timeout",
                f"session.timeout.ms is {given}, but brokers of {self.target.alias} allow {least} "
                f"to {most}",
                effect="the flow's worker cannot join its group, so the flow does not start",
                fix=f"set session.timeout.ms between {_SESSION_TIMEOUT_LIMITS[0]} and "
                f"{_SESSION_TIMEOUT_LIMITS[1]}",
            )

    def check_risky_settings(self) -> Iterator[CheckFinding]:
        if self.configs.get(_AUTO_CREATE) == "true":
            yield self._build_finding(
                "auto-create",
                f"{_AUTO_CREATE} is true on {self.target.alias}",
                effect=(
                    "if a client uses a mirror topic before mm2 creates it, the brokers create "
                    "the topic with their default partition count and settings"
                ),
                fix=f"set {_AUTO_CREATE}=false on the brokers",
                severity=CheckSeverity.WARNING,
            )
        if self.configs.get(_UNCLEAN_ELECTION) == "true":
            yield self._build_finding(
                "unclean-election",
                f"{_UNCLEAN_ELECTION} is true on {self.target.alias}",
                effect=(
                    "a failed broker may lose acknowledged records, which are then replicated again"
                ),
                fix=f"set {_UNCLEAN_ELECTION}=false on the brokers",
                severity=CheckSeverity.WARNING,
            )

    def _get_mirror_replication_factor(self) -> tuple[int | None, str]:
        """Return the replication factor of new mirror topics, and the name of the setting that
        determines it."""
        if self.target.factor != -1:
            return self.target.factor, "replication.factor"
        return self._get_integer_config(
            _DEFAULT_REPLICATION_FACTOR
        ), f"{_DEFAULT_REPLICATION_FACTOR} of the brokers"

    def _get_integer_config(self, name: str) -> int | None:
        value = self.configs.get(name)
        return None if value is None else int(value)

    def _build_finding(
        self,
        code: str,
        text: str,
        *,
        effect: str,
        fix: str,
        severity: CheckSeverity = CheckSeverity.FAILED,
    ) -> CheckFinding:
        return CheckFinding(
            subject=self.flow,
            area=CheckArea.SETTINGS,
            severity=severity,
            code=code,
            text=text,
            effect=effect,
            fix=fix,
        )


def get_default_replication_factor(configs: BrokerConfigs | None) -> int | None:
    """Return the brokers' default replication factor, or None if unknown."""
    value = (configs or {}).get(_DEFAULT_REPLICATION_FACTOR)
    return None if value is None else int(value)


def get_default_retention_ms(configs: BrokerConfigs | None) -> int | None:
    """Return the brokers' default retention in milliseconds: -1 for unlimited, None if unknown."""
    for name, unit_ms in zip(_RETENTION_KEYS, _RETENTION_UNITS_MS, strict=True):
        value = (configs or {}).get(name)
        if value is not None:
            return -1 if int(value) < 0 else int(value) * unit_ms
    return None
