"""Defines the findings of a plan: codes, severities, and the verdict.

Operators accept a finding that forbids the failover by its code, for all groups or for one group
(`--accept CODE:GROUP`). Finding codes with a constant in this module are also used by the steps of
the failover: a step skips the partitions or groups for which the operator has accepted such a
finding.
"""

from __future__ import annotations

import enum
import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace


class PlanSeverity(enum.Enum):
    """Severity of a finding: it forbids the failover, is a cost of the failover, or is information
    only."""

    FORBIDS = "no-go"
    COSTS = "cost"
    NOTE = "note"


class PlanVerdict(enum.Enum):
    """Verdict on whether the failover can be executed. The value of the enum member is shown to
    users."""

    GO = "GO"
    GO_AT_A_COST = "GO, AT A COST"
    NO_GO = "NO-GO"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFinding:
    """One finding of a plan."""

    severity: PlanSeverity
    """Severity of the finding."""
    code: str
    """Stable identifier for scripts and `--accept`."""
    text: str
    """Description of the problem and the remedy."""
    group: str = ""
    """Consumer group that the finding is about, or "" if it is not about one group."""


def lower_severity_if_accepted(finding: PlanFinding, accepted: Collection[str]) -> PlanFinding:
    """Lower the severity of an accepted finding from no-go to cost; see
    `FailoverRequest.accepted`."""
    named = finding.code in accepted or f"{finding.code}:{finding.group}" in accepted
    if named and finding.severity is PlanSeverity.FORBIDS:
        return replace(finding, severity=PlanSeverity.COSTS)
    return finding


def format_accept_option(code: str, group: str) -> str:
    """Return the option that accepts a finding for one group, quoted for the shell."""
    return shlex.join(["--accept", f"{code}:{group}"])


def decide_verdict(findings: Iterable[PlanFinding]) -> PlanVerdict:
    """Return the verdict that follows from the most severe finding."""
    weights = {each.severity for each in findings}
    if PlanSeverity.FORBIDS in weights:
        return PlanVerdict.NO_GO
    return PlanVerdict.GO_AT_A_COST if PlanSeverity.COSTS in weights else PlanVerdict.GO


MIRROR_UNKNOWN = "mirror-unknown"
LAG_UNKNOWN = "lag-unknown"

GROUP_ACTIVE_ON_ORIGIN = "group-active-on-origin"
GROUP_UNREADABLE = "group-unreadable"
GROUP_ACTIVE = "group-active"
GROUP_UNKNOWN = "group-unknown"
GROUP_WRITE_DENIED = "group-write-denied"
GROUP_READ_DENIED = "group-read-denied"

SHARE_GROUP = "share-group"
STREAMS_GROUP = "streams-group"

ALL_CODES = frozenset(
    {
        MIRROR_UNKNOWN,
        LAG_UNKNOWN,
        GROUP_ACTIVE_ON_ORIGIN,
        GROUP_UNREADABLE,
        GROUP_ACTIVE,
        GROUP_UNKNOWN,
        GROUP_WRITE_DENIED,
        GROUP_READ_DENIED,
        SHARE_GROUP,
        STREAMS_GROUP,
        "rereads",
        "as-of-checkpoint",
        "checkpoint-unreadable",
        "origin-written",
        "records-deleted",
        "group-type-conflict",
        "group-deleted",
        "groups-unlisted",
        "origin-partly-unreachable",
        "higher-position",
        "lag",
        "no-longer-replicated",
        "earlier-incidents",
        "stop-denied",
        "mirror-missing",
        "no-connectors",
        "no-export",
        "no-groups",
        "no-hook",
        "no-journal",
        "no-target-offset",
        "no-position",
        "no-such-group",
        "unchecked",
        "not-replicated",
        "nothing-replicated",
        "one-cluster",
        "open-transactions",
        "origin-truncated",
        "origin-unreachable",
        "other-move",
        "rewind",
        "shared-names",
        "lower-position",
        "halted",
        "streams-state",
        "offset-syncs-unreadable",
        "too-old",
        "unfenced",
        "unfinished-move",
        "read-unreplicated",
        "unreplicated",
        "untranslated",
        "reverse-flow-unknown",
    }
)


def find_unknown_codes(accepted: Iterable[str]) -> list[str]:
    """Return the accepted codes (`CODE` or `CODE:GROUP`) that no finding uses."""
    return sorted({each for each in accepted if each.partition(":")[0] not in ALL_CODES})
