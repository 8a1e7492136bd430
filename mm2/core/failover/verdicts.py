"""What a plan finds, how much that weighs, and the verdict of it all."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace


class Weight(enum.Enum):
    """How much a finding weighs: it forbids the move, costs something, or is worth knowing."""

    FORBIDS = "no-go"
    COSTS = "cost"
    NOTE = "note"


class Verdict(enum.Enum):
    GO = "GO"
    GO_AT_A_COST = "GO, AT A COST"
    NO_GO = "NO-GO"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`code` is for programs and stays the same; `text` says what was found and what to do.
    `group`: whose it is, "" where it is nobody's alone."""

    weight: Weight
    code: str
    text: str
    group: str = ""


def weighed(finding: Finding, accepted: Collection[str]) -> Finding:
    """What the operator accepts costs, and no longer forbids. `accepted`: see `orders.Wanted`."""
    named = finding.code in accepted or f"{finding.code}:{finding.group}" in accepted
    if named and finding.weight is Weight.FORBIDS:
        return replace(finding, weight=Weight.COSTS)
    return finding


def verdict(findings: Iterable[Finding]) -> Verdict:
    """The gravest finding decides."""
    weights = {each.weight for each in findings}
    if Weight.FORBIDS in weights:
        return Verdict.NO_GO
    return Verdict.GO_AT_A_COST if Weight.COSTS in weights else Verdict.GO
