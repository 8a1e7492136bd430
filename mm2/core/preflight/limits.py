"""Settings of the two clusters that bite: what is asked for against what brokers are set to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from connect_runtime.base import amounts
from mm2.core.preflight import findings

Configs = Mapping[str, str | None]

TRANSACTION_TIMEOUT_MS = 60_000
"""What fences and transactions of the copies ask for."""
_AUTO_CREATE = "auto.create.topics.enable"
_TRANSACTION_MAX = "transaction.max.timeout.ms"
_PRODUCERS = ("producer.id.expiration.ms", "transactional.id.expiration.ms")
_IN_SYNC = "min.insync.replicas"
_DEFAULT_FACTOR = "default.replication.factor"
_UNCLEAN = "unclean.leader.election.enable"
_STATE_FACTORS = {
    "transaction.state.log.replication.factor": "__transaction_state",
    "offsets.topic.replication.factor": "__consumer_offsets",
}
_SESSION = ("group.min.session.timeout.ms", "group.max.session.timeout.ms")
_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_UNITS_MS = (1, 60_000, 3_600_000)
BROKER_SETTINGS = (
    *(_AUTO_CREATE, _TRANSACTION_MAX, *_PRODUCERS),
    *(_IN_SYNC, _DEFAULT_FACTOR, _UNCLEAN, *_STATE_FACTORS, *_SESSION, *_RETENTION),
)
"""What has to be asked of a broker."""

_FORGETFUL_MS = 3_600_000
_SAFE_BROKERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`configs` are a broker's `BROKER_SETTINGS`; None: they may not be read.

    `topics`: names of all that are there. `factor`: `replication.factor` of the flow, -1 for the
    brokers' own. `session_ms`: the worker's `session.timeout.ms`.
    """

    alias: str
    brokers: int
    configs: Configs | None
    topics: frozenset[str]
    factor: int
    session_ms: int


def same_cluster(
    flow: str, source_id: str, target_id: str, *, renames: bool
) -> Iterator[findings.Finding]:
    """`renames`: do mirrors have other names than their topics?"""
    if not source_id or source_id != target_id:
        return
    weight = findings.Weight.WARNING if renames else findings.Weight.FAILED
    yield findings.Finding(
        subject=flow,
        word=findings.Word.SETTINGS,
        weight=weight,
        code="same-cluster",
        text=f"both aliases lead to the same cluster ({source_id})",
        means="every topic gets a copy beside it"
        if renames
        else "every topic would be copied into itself: nothing is copied",
        mend="correct bootstrap.servers of one of the two",
    )


def of_target(flow: str, target: Target) -> Iterator[findings.Finding]:
    """All that brokers' settings say against this flow."""
    told = _Told(flow, target, target.configs or {})
    yield from told.factor()
    yield from told.in_sync()
    yield from told.state_topics()
    yield from told.transactions()
    yield from told.memory()
    yield from told.session()
    yield from told.habits()


@dataclass(frozen=True, slots=True)
class _Told:
    flow: str
    target: Target
    configs: Configs

    def factor(self) -> Iterator[findings.Finding]:
        wanted, key = self._wanted()
        brokers = self.target.brokers
        if wanted == 1 and brokers >= _SAFE_BROKERS:
            yield self._finding(
                "replication-factor-one",
                f"{key} is 1, {self.target.alias} has {amounts.counted(brokers, 'broker')}",
                means="a broker that is lost takes mirrors with it",
                mend=f"set replication.factor of {self.flow} to {_SAFE_BROKERS}",
                weight=findings.Weight.WARNING,
            )

    def in_sync(self) -> Iterator[findings.Finding]:
        wanted, key = self._wanted()
        needed = self._number(_IN_SYNC)
        if wanted is None or needed is None or needed < wanted or needed == 1:
            return
        refuses = needed > wanted
        yield self._finding(
            "min-insync",
            f"{_IN_SYNC} is {needed} on {self.target.alias}, {key} is {wanted}",
            means="every batch is refused (NOT_ENOUGH_REPLICAS)"
            if refuses
            else "as soon as one broker is down, batches are refused",
            mend=f"set replication.factor of {self.flow} above {needed}, or {_IN_SYNC} below it",
            weight=findings.Weight.FAILED if refuses else findings.Weight.WARNING,
        )

    def state_topics(self) -> Iterator[findings.Finding]:
        brokers = amounts.counted(self.target.brokers, "broker")
        for name, topic in _STATE_FACTORS.items():
            wanted = self._number(name)
            if wanted is None or wanted <= self.target.brokers or topic in self.target.topics:
                continue
            yield self._finding(
                "broker-state-factor",
                f"{name} is {wanted}, {self.target.alias} has {brokers}",
                means=f"{topic} cannot be made: no group and no transaction begins there",
                mend=f"set {name} to at most {self.target.brokers} on the brokers",
            )

    def transactions(self) -> Iterator[findings.Finding]:
        longest = self._number(_TRANSACTION_MAX)
        if longest is not None and longest < TRANSACTION_TIMEOUT_MS:
            yield self._finding(
                "transaction-timeout",
                f"{_TRANSACTION_MAX} is {longest} on {self.target.alias}",
                means=f"transactions of {TRANSACTION_TIMEOUT_MS} ms are refused: nobody is fenced",
                mend=f"set {_TRANSACTION_MAX} to {TRANSACTION_TIMEOUT_MS} at least on the brokers",
            )

    def memory(self) -> Iterator[findings.Finding]:
        for name in _PRODUCERS:
            known = self._number(name)
            if known is not None and known < _FORGETFUL_MS:
                yield self._finding(
                    "producer-expiration",
                    f"{name} is {known} on {self.target.alias}",
                    means="brokers forget producers so soon that records older than half of it are "
                    "copied in transactions, and fences are renewed all the time",
                    mend=f"set {name} to {_FORGETFUL_MS} at least on the brokers",
                    weight=findings.Weight.WARNING,
                )

    def session(self) -> Iterator[findings.Finding]:
        least, most = map(self._number, _SESSION)
        given = self.target.session_ms
        if (least is not None and given < least) or (most is not None and given > most):
            yield self._finding(
                "session-timeout",
                f"session.timeout.ms is {given}, brokers of {self.target.alias} take {least} to "
                f"{most}",
                means="the flow's worker cannot join its group: the flow does not begin",
                mend=f"set session.timeout.ms between {_SESSION[0]} and {_SESSION[1]}",
            )

    def habits(self) -> Iterator[findings.Finding]:
        if self.configs.get(_AUTO_CREATE) == "true":
            yield self._finding(
                "auto-create",
                f"{_AUTO_CREATE} is true on {self.target.alias}",
                means="who asks for a mirror before it is made gets one with the brokers' own "
                "partitions and settings",
                mend=f"set {_AUTO_CREATE}=false on the brokers",
                weight=findings.Weight.WARNING,
            )
        if self.configs.get(_UNCLEAN) == "true":
            yield self._finding(
                "unclean-election",
                f"{_UNCLEAN} is true on {self.target.alias}",
                means="a failed broker may take acknowledged records with it; what was copied is "
                "then copied again",
                mend=f"set {_UNCLEAN}=false on the brokers",
                weight=findings.Weight.WARNING,
            )

    def _wanted(self) -> tuple[int | None, str]:
        """How many replicas new mirrors get, and which key says it."""
        if self.target.factor != -1:
            return self.target.factor, "replication.factor"
        return self._number(_DEFAULT_FACTOR), f"{_DEFAULT_FACTOR} of the brokers"

    def _number(self, name: str) -> int | None:
        value = self.configs.get(name)
        return None if value is None else int(value)

    def _finding(
        self,
        code: str,
        text: str,
        *,
        means: str,
        mend: str,
        weight: findings.Weight = findings.Weight.FAILED,
    ) -> findings.Finding:
        return findings.Finding(
            subject=self.flow,
            word=findings.Word.SETTINGS,
            weight=weight,
            code=code,
            text=text,
            means=means,
            mend=mend,
        )


def default_factor(configs: Configs | None) -> int | None:
    """How many replicas brokers give topics of which nobody says it; None: not known."""
    value = (configs or {}).get(_DEFAULT_FACTOR)
    return None if value is None else int(value)


def retention_ms(configs: Configs | None) -> int | None:
    """How long a broker keeps what topics say nothing of; -1 for ever, None: not known."""
    for name, unit_ms in zip(_RETENTION, _UNITS_MS, strict=True):
        value = (configs or {}).get(name)
        if value is not None:
            return -1 if int(value) < 0 else int(value) * unit_ms
    return None
