"""Assesses which features the two clusters of a flow support, and derives the delivery guarantee.

The probe collects observations, this module evaluates them, and `mm2 probe` prints both.
Exactly-once delivery needs fencing: a transactional id reserved for the flow, brokers that reject
an older epoch, and acknowledgements that contain the batch's offset. If one of these is missing,
the flow replicates at least once: acquiring a partition does not fence older writers, so the last
batches of a former owner may be stored among the new owner's batches. Such batches are detected and
counted, because an acknowledged offset is not the expected one or tail matching finds them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from connect_runtime.protocol import api_versions


class ClusterRole(enum.Enum):
    """Role of a cluster in a flow."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredApi:
    """A Kafka API that replication needs, in any version between `low` and `high`."""

    name: str
    low: int
    high: int
    only_for_fencing: bool = False
    """True if replication also works without the API, but only at least once."""

    @property
    def key(self) -> int:
        """The API key in Kafka's protocol."""
        return api_versions.API_KEYS[self.name]


_READ_APIS = (
    RequiredApi(name="metadata", low=7, high=13),
    RequiredApi(
        name="fetch", low=api_versions.FETCH_VERSIONS[0], high=api_versions.FETCH_VERSIONS[1]
    ),
    RequiredApi(name="list_offsets", low=4, high=11),
)
REQUIRED_APIS: Mapping[ClusterRole, tuple[RequiredApi, ...]] = {
    ClusterRole.SOURCE: _READ_APIS,
    ClusterRole.TARGET: (
        *_READ_APIS,
        RequiredApi(
            name="produce",
            low=api_versions.PRODUCE_VERSIONS[0],
            high=api_versions.PRODUCE_VERSIONS[1],
        ),
        RequiredApi(name="offset_for_leader_epoch", low=2, high=4),
        RequiredApi(name="init_producer_id", low=1, high=3),
        RequiredApi(name="find_coordinator", low=1, high=6, only_for_fencing=True),
        RequiredApi(name="add_partitions_to_txn", low=0, high=3, only_for_fencing=True),
        RequiredApi(name="end_txn", low=1, high=3, only_for_fencing=True),
    ),
}


class CapabilityCheck(enum.Enum):
    """Check that the probe performs on a partition of the target. Checks run in the order of their
    definition."""

    TRANSACTIONAL_ID = "the flow is authorized for its transactional ids"
    MARKER = "the marker of an empty transaction can be read"
    OFFSET = "a batch is acknowledged with its actual offset"
    UNCHANGED = "a batch is stored unchanged"
    DUPLICATE = "a batch that is sent twice is stored only once"
    SEQUENCE = "a batch with a sequence gap is rejected"
    FENCE = "an older producer epoch is rejected"
    SUCCESSOR = "the newer producer epoch may write"


class CheckOutcome(enum.Enum):
    """Outcome of a capability check."""

    HOLDS = "holds"
    FAILS = "fails"
    DENIED = "denied"
    """The client was not authorized to run the check."""
    UNKNOWN = "unknown"
    """The check could not be completed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityCheckResult:
    """Outcome of one capability check. `detail` describes the unexpected behavior, or is "" if the
    check passed."""

    outcome: CheckOutcome
    detail: str = ""


CHECK_HOLDS = CapabilityCheckResult(outcome=CheckOutcome.HOLDS)
CHECK_NOT_TRIED = CapabilityCheckResult(outcome=CheckOutcome.UNKNOWN, detail="not tried")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCapabilities:
    """Observations of the capability probe on one cluster."""

    alias: str
    api_versions: Mapping[str, int | None]
    """API name -> the version that would be used; None if client and broker support no common
    version."""
    has_topic_ids: bool | None = None
    """True if topics have ids; None if no topic was visible."""
    reports_producer_expiration: bool | None = None
    """True if brokers expose the producer id expiration time; None if not queried. Target only."""
    checks: Mapping[CapabilityCheck, CapabilityCheckResult] = field(default_factory=dict)
    """Results of the capability checks. Target only."""

    def get_check_result(self, check: CapabilityCheck) -> CapabilityCheckResult:
        """Return the result of a check, or UNKNOWN if the check did not run."""
        return self.checks.get(check, CHECK_NOT_TRIED)

    def list_missing_apis(self, side: ClusterRole) -> list[RequiredApi]:
        """List the required APIs that the cluster does not support in a usable version."""
        return [each for each in REQUIRED_APIS[side] if self.api_versions.get(each.name) is None]


class DeliveryGuarantee(enum.Enum):
    """Delivery guarantee of a flow."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"
    NONE = "cannot be mirrored"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAssessment:
    """Delivery guarantee of a flow between two clusters, and the reasons for it."""

    guarantee: DeliveryGuarantee
    is_verified: bool
    """False if the guarantee depends on a check that could not run. Such a check is assumed to have
    passed."""
    reasons: tuple[str, ...] = ()
    """Reasons why delivery is not exactly once, each with a remedy if available."""
    notes: tuple[str, ...] = ()
    """Deviations of a cluster from the behavior of Apache Kafka that do not affect the delivery
    guarantee."""

    @property
    def is_fenced(self) -> bool:
        """Return True if acquiring a partition fences older writers (exactly once)."""
        return self.guarantee is DeliveryGuarantee.EXACTLY_ONCE

    def __str__(self) -> str:
        told = self.guarantee.value
        if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE and not self.is_verified:
            told += ", not verified"
        return told


_FENCING_CHECKS = (
    CapabilityCheck.TRANSACTIONAL_ID,
    CapabilityCheck.MARKER,
    CapabilityCheck.FENCE,
    CapabilityCheck.SUCCESSOR,
)
_ORDERING_CHECKS = (CapabilityCheck.OFFSET, CapabilityCheck.DUPLICATE, CapabilityCheck.SEQUENCE)
_CONSEQUENCES: Mapping[CapabilityCheck, str] = {
    CapabilityCheck.TRANSACTIONAL_ID: "older writers cannot be fenced",
    CapabilityCheck.MARKER: "the flow cannot detect when a fence is in effect",
    CapabilityCheck.FENCE: "a former owner of a partition could still write",
    CapabilityCheck.SUCCESSOR: "a fence also rejects the new owner",
    CapabilityCheck.OFFSET: "duplicates cannot be detected when they are written",
    CapabilityCheck.DUPLICATE: "brokers do not keep producer state",
    CapabilityCheck.SEQUENCE: (
        "batches sent after a rejected batch would be stored although that batch is missing"
    ),
}


def assess_delivery(
    source: ClusterCapabilities, target: ClusterCapabilities, *, transactional_prefix: str
) -> DeliveryAssessment:
    """Assess the delivery guarantee of a flow whose transactional ids begin with
    `transactional_prefix`."""
    missing = [
        f"{observed.alias} does not support {api.name} in any version from {api.low} to {api.high}"
        for side, observed in ((ClusterRole.SOURCE, source), (ClusterRole.TARGET, target))
        for api in observed.list_missing_apis(side)
        if not api.only_for_fencing
    ]
    notes = tuple(_describe_differences(source, target))
    if missing:
        return DeliveryAssessment(
            guarantee=DeliveryGuarantee.NONE, is_verified=True, reasons=tuple(missing), notes=notes
        )
    reasons = tuple(_explain_weaker_guarantee(target, transactional_prefix))
    unknown = [
        check
        for check in (*_FENCING_CHECKS, *_ORDERING_CHECKS)
        if target.get_check_result(check).outcome is CheckOutcome.UNKNOWN
    ]
    if reasons:
        return DeliveryAssessment(
            guarantee=DeliveryGuarantee.AT_LEAST_ONCE,
            is_verified=True,
            reasons=reasons,
            notes=notes,
        )
    untried = tuple(
        f"{target.alias}: not verified that {check.value}: {target.get_check_result(check).detail}"
        for check in unknown[:1]
    )
    return DeliveryAssessment(
        guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        is_verified=not unknown,
        reasons=(),
        notes=(*untried, *notes),
    )


def _explain_weaker_guarantee(
    target: ClusterCapabilities, transactional_prefix: str
) -> Iterator[str]:
    for api in target.list_missing_apis(ClusterRole.TARGET):
        consequence = _CONSEQUENCES[CapabilityCheck.TRANSACTIONAL_ID]
        yield f"{target.alias} does not support {api.name}, so {consequence}"
    for check in (*_FENCING_CHECKS, *_ORDERING_CHECKS):
        answer = target.get_check_result(check)
        if answer.outcome is CheckOutcome.DENIED:
            yield (
                f"{target.alias}: not authorized to check that {check.value}, so "
                f"{_CONSEQUENCES[check]}: "
                "grant WRITE and "
                f"DESCRIBE on transactional ids with the prefix {transactional_prefix}, and WRITE "
                "on the mirror topics"
            )
        elif answer.outcome is CheckOutcome.FAILS:
            yield (
                f"{target.alias}: check failed: {check.value} ({answer.detail}), so "
                f"{_CONSEQUENCES[check]}"
            )


def _describe_differences(
    source: ClusterCapabilities, target: ClusterCapabilities
) -> Iterator[str]:
    unchanged = target.get_check_result(CapabilityCheck.UNCHANGED)
    if unchanged.outcome is CheckOutcome.FAILS:
        yield (
            f"{target.alias} rewrites batches ({unchanged.detail}): replicated batches are "
            "compared with the source record by record, which takes longer"
        )
    if target.reports_producer_expiration is False:
        yield (
            f"{target.alias} does not report how long brokers remember a producer: 24 hours are "
            "assumed; grant DESCRIBE_CONFIGS on the cluster"
        )
    for each in (source, target):
        if each.has_topic_ids is False:
            yield (
                f"{each.alias} has no topic ids: a recreated topic is "
                "detected by leader epochs and offsets only"
            )
