"""Defines the findings of a plan: codes, severities, and the verdict.

Operators accept a finding that forbids the move by its code, for all groups or for one group
(`--accept CODE:GROUP`). Codes that have a constant in this module are also used by steps, which
then skip the partitions or groups of the accepted finding.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace


class PlanSeverity(enum.Enum):
    """Severity of a finding: the finding forbids the move, has a cost, or is information."""

    FORBIDS = "no-go"
    COSTS = "cost"
    NOTE = "note"


class PlanVerdict(enum.Enum):
    """Verdict on whether the move can be executed. The value is printed."""

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
    """The consumer group concerned, or "" if the finding is not about one group."""


def apply_acceptance(finding: PlanFinding, accepted: Collection[str]) -> PlanFinding:
    """Lower the severity of an accepted finding from no-go to cost; see `MoveRequest.accepted`."""
    named = finding.code in accepted or f"{finding.code}:{finding.group}" in accepted
    if named and finding.severity is PlanSeverity.FORBIDS:
        return replace(finding, severity=PlanSeverity.COSTS)
    return finding


def decide_verdict(findings: Iterable[PlanFinding]) -> PlanVerdict:
    """Return the verdict that follows from the most severe finding."""
    weights = {each.severity for each in findings}
    if PlanSeverity.FORBIDS in weights:
        return PlanVerdict.NO_GO
    return PlanVerdict.GO_AT_A_COST if PlanSeverity.COSTS in weights else PlanVerdict.GO


MIRROR_UNKNOWN = "mirror-unknown"
LAG_UNKNOWN = "lag-unknown"

GROUP_STILL_HERE = "group-still-here"
GROUP_UNREAD = "group-unread"
GROUP_ACTIVE = "group-active"
GROUP_UNKNOWN = "group-unknown"
GROUP_DENIED = "group-denied"
GROUP_REFUSED = "group-refused"

SHARE_GROUP = "share-group"
STREAMS_GROUP = "streams-group"

ALL_CODES = frozenset(
    {
        MIRROR_UNKNOWN,
        LAG_UNKNOWN,
        GROUP_STILL_HERE,
        GROUP_UNREAD,
        GROUP_ACTIVE,
        GROUP_UNKNOWN,
        GROUP_DENIED,
        GROUP_REFUSED,
        SHARE_GROUP,
        STREAMS_GROUP,
        "again",
        "as-of-checkpoint",
        "checkpoint-unreadable",
        "ends-moved",
        "gone",
        "group-foreign",
        "group-gone",
        "groups-unlisted",
        "half-lost",
        "is-ahead",
        "lag",
        "left-out",
        "losses",
        "may-not-stop",
        "mirror-missing",
        "no-connectors",
        "no-export",
        "no-groups",
        "no-hook",
        "no-journal",
        "no-place",
        "no-position",
        "no-such-group",
        "not-looked-at",
        "not-mirrored",
        "nothing-mirrored",
        "one-cluster",
        "open-transactions",
        "origin-truncated",
        "origin-unreachable",
        "other-move",
        "set-back",
        "shared-names",
        "stands-before",
        "stopped",
        "streams-state",
        "syncs-unread",
        "too-old",
        "unfenced",
        "unfinished-move",
        "unmirrored",
        "unreplicated",
        "untranslated",
        "way-back-unknown",
    }
)


def find_unknown_codes(accepted: Iterable[str]) -> list[str]:
    """Return the accepted codes (`CODE` or `CODE:GROUP`) that no finding uses."""
    return sorted({each for each in accepted if each.partition(":")[0] not in ALL_CODES})
