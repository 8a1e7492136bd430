"""What the two clusters of a flow support, and the delivery guarantee that follows.

A probe observes, this module decides, and `mm2 probe` prints both. Exactly once needs fencing: a
transactional id of the flow's own, brokers that reject an older epoch, and acknowledgements with
the offset of the batch. Without any of them the flow replicates at least once: nobody is fenced
when a partition is acquired, so a former owner's last batches may arrive among the new owner's.
They are detected (an acknowledged offset is not the expected one, or tail matching finds them)
and counted.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from connect_runtime.protocol import api_versions


class ClusterRole(enum.Enum):
    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredApi:
    """An API that the copy speaks, in a version from `low` to `high`.

    `only_for_the_fence`: without it the copy works, at least once.
    """

    name: str
    low: int
    high: int
    only_for_the_fence: bool = False

    @property
    def key(self) -> int:
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
        RequiredApi(name="find_coordinator", low=1, high=6, only_for_the_fence=True),
        RequiredApi(name="add_partitions_to_txn", low=0, high=3, only_for_the_fence=True),
        RequiredApi(name="end_txn", low=1, high=3, only_for_the_fence=True),
    ),
}


class CapabilityCheck(enum.Enum):
    """What is tried on a partition of our own on the target, in this order."""

    TRANSACTIONAL_ID = "our transactional ids may be used"
    MARKER = "the marker of an empty transaction can be read"
    OFFSET = "a batch is acknowledged at the offset where it stands"
    UNCHANGED = "a batch is kept as it was sent"
    DUPLICATE = "a batch that comes twice is stored once"
    SEQUENCE = "a batch is refused whose predecessor is missing"
    FENCE = "an older epoch is refused"
    SUCCESSOR = "the newer epoch may write"


class CheckOutcome(enum.Enum):
    """`DENIED`: we have not the right to. `UNKNOWN`: it could not be tried to its end."""

    HOLDS = "holds"
    FAILS = "fails"
    DENIED = "denied"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityCheckResult:
    """`detail` says what was seen instead; empty where it holds."""

    outcome: CheckOutcome
    detail: str = ""


CHECK_HOLDS = CapabilityCheckResult(outcome=CheckOutcome.HOLDS)
CHECK_NOT_TRIED = CapabilityCheckResult(outcome=CheckOutcome.UNKNOWN, detail="not tried")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCapabilities:
    """One cluster as the probe found it.

    `spoken[name]`: the version of an API that we would speak, None where no version fits.
    `topic_ids` None: no topic was seen. A target's alone: `checks`, and `tells_expiration`, whether
    the brokers tell how long they remember a producer (None: not asked).
    """

    alias: str
    spoken: Mapping[str, int | None]
    topic_ids: bool | None = None
    tells_expiration: bool | None = None
    checks: Mapping[CapabilityCheck, CapabilityCheckResult] = field(default_factory=dict)

    def answer(self, check: CapabilityCheck) -> CapabilityCheckResult:
        return self.checks.get(check, CHECK_NOT_TRIED)

    def missing(self, side: ClusterRole) -> list[RequiredApi]:
        return [each for each in REQUIRED_APIS[side] if self.spoken.get(each.name) is None]


class DeliveryGuarantee(enum.Enum):
    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"
    NONE = "cannot be mirrored"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAssessment:
    """What a flow will do between two clusters.

    `proven` is False where something that delivery rests on could not be tried; it is then taken
    for granted, as on any Apache Kafka. `reasons` say why it is not exactly once, each with a way
    on where there is one; `notes` what else is different here.
    """

    delivery: DeliveryGuarantee
    proven: bool
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fenced(self) -> bool:
        """Is a partition taken by a fence? If not, without one (at least once)."""
        return self.delivery is DeliveryGuarantee.EXACTLY_ONCE

    def __str__(self) -> str:
        told = self.delivery.value
        if self.delivery is DeliveryGuarantee.EXACTLY_ONCE and not self.proven:
            told += ", not proven here"
        return told


_FENCING_CHECKS = (
    CapabilityCheck.TRANSACTIONAL_ID,
    CapabilityCheck.MARKER,
    CapabilityCheck.FENCE,
    CapabilityCheck.SUCCESSOR,
)
_ORDERING_CHECKS = (CapabilityCheck.OFFSET, CapabilityCheck.DUPLICATE, CapabilityCheck.SEQUENCE)
_CONSEQUENCES: Mapping[CapabilityCheck, str] = {
    CapabilityCheck.TRANSACTIONAL_ID: "nothing can be fenced",
    CapabilityCheck.MARKER: "nobody could tell when a fence is in place",
    CapabilityCheck.FENCE: "a former owner could still write",
    CapabilityCheck.SUCCESSOR: "a fence shuts out its own owner",
    CapabilityCheck.OFFSET: "duplicates cannot be seen where they are written",
    CapabilityCheck.DUPLICATE: "the brokers keep no producer's state",
    CapabilityCheck.SEQUENCE: "batches behind a refused one would be stored in its place",
}


def assess_delivery(
    source: ClusterCapabilities, target: ClusterCapabilities, *, transactional_prefix: str
) -> DeliveryAssessment:
    """What follows for a flow; `transactional_prefix` begins all its transactional ids."""
    missing = [
        f"{observed.alias} does not speak {api.name} in any version from {api.low} to {api.high}"
        for side, observed in ((ClusterRole.SOURCE, source), (ClusterRole.TARGET, target))
        for api in observed.missing(side)
        if not api.only_for_the_fence
    ]
    notes = tuple(_note_differences(source, target))
    if missing:
        return DeliveryAssessment(
            delivery=DeliveryGuarantee.NONE, proven=True, reasons=tuple(missing), notes=notes
        )
    reasons = tuple(_explain_weaker_guarantee(target, transactional_prefix))
    unknown = [
        check
        for check in (*_FENCING_CHECKS, *_ORDERING_CHECKS)
        if target.answer(check).outcome is CheckOutcome.UNKNOWN
    ]
    if reasons:
        return DeliveryAssessment(
            delivery=DeliveryGuarantee.AT_LEAST_ONCE, proven=True, reasons=reasons, notes=notes
        )
    untried = tuple(
        f"{target.alias}: not tried whether {check.value}: {target.answer(check).detail}"
        for check in unknown[:1]
    )
    return DeliveryAssessment(
        delivery=DeliveryGuarantee.EXACTLY_ONCE,
        proven=not unknown,
        reasons=(),
        notes=(*untried, *notes),
    )


def _explain_weaker_guarantee(
    target: ClusterCapabilities, transactional_prefix: str
) -> Iterator[str]:
    for api in target.missing(ClusterRole.TARGET):
        yield f"{target.alias} does not speak {api.name}, so {_CONSEQUENCES[CapabilityCheck.TRANSACTIONAL_ID]}"
    for check in (*_FENCING_CHECKS, *_ORDERING_CHECKS):
        answer = target.answer(check)
        if answer.outcome is CheckOutcome.DENIED:
            yield (
                f"{target.alias} denies it that {check.value}, so {_CONSEQUENCES[check]}: "
                "grant WRITE and "
                f"DESCRIBE on transactional ids with the prefix {transactional_prefix}, and WRITE "
                "on the mirror topics"
            )
        elif answer.outcome is CheckOutcome.FAILS:
            yield f"on {target.alias} it fails that {check.value} ({answer.detail}): {_CONSEQUENCES[check]}"


def _note_differences(source: ClusterCapabilities, target: ClusterCapabilities) -> Iterator[str]:
    unchanged = target.answer(CapabilityCheck.UNCHANGED)
    if unchanged.outcome is CheckOutcome.FAILS:
        yield (
            f"{target.alias} rewrites batches ({unchanged.detail}): what was copied is compared "
            "record by record, which costs more"
        )
    if target.tells_expiration is False:
        yield (
            f"{target.alias} does not tell how long its brokers remember a producer: 24 hours are "
            "assumed; grant DESCRIBE_CONFIGS on the cluster"
        )
    for each in (source, target):
        if each.topic_ids is False:
            yield (
                f"{each.alias} has no topic ids: a topic that was deleted and created again is "
                "told by its leader epochs and offsets"
            )
