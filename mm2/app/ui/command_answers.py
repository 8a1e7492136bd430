"""What `mm2 receipts --json` and `mm2 failover --json` said, cut down to what the page shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from mm2.app.ui import tones
from mm2.core.failover import verdicts
from mm2.formats import receipt

RECEIPTS_MAX = 100
ACTION = receipt.ReceiptKind.OPERATOR_ACTION.value
FINDINGS_MAX = 30

Json = dict[str, Any]

_VERDICTS = {
    "go": (verdicts.Verdict.GO, tones.Tone.GOOD),
    "go-at-a-cost": (verdicts.Verdict.GO_AT_A_COST, tones.Tone.WAIT),
    "no-go": (verdicts.Verdict.NO_GO, tones.Tone.BAD),
}
_WEIGHTS = {
    verdicts.Weight.FORBIDS.value: tones.Tone.BAD,
    verdicts.Weight.COSTS.value: tones.Tone.WAIT,
    verdicts.Weight.NOTE.value: tones.Tone.OFF,
}
_GRAVEST_FIRST = [each.value for each in verdicts.Weight]


class OtherVersionError(ValueError):
    """Another release than ours has answered."""


def receipts(told: Mapping[str, Any]) -> Json:
    """Newest first; what operators did is apart, for it says nothing of losses or duplicates.
    Raises `OtherVersionError`, `KeyError` and `TypeError` for what is none."""
    _check(told)
    found = sorted(told["receipts"], key=lambda each: -each["at_ms"])
    stated = [each for each in found if each["kind"] != ACTION]
    actions = [each for each in found if each["kind"] == ACTION]
    return {
        "receipt_count": len(stated),
        "kinds": dict(sorted(Counter(each["kind"] for each in stated).items())),
        "receipts": [_receipt(each) for each in stated[:RECEIPTS_MAX]],
        "actions": [_receipt(each) for each in actions[:RECEIPTS_MAX]],
    }


def _receipt(each: Mapping[str, Any]) -> Json:
    names = ("id", "at_ms", "topic", "partition", "kind", "source", "target", "detail")
    return {name: each[name] for name in names}


def plan(told: Mapping[str, Any]) -> Json:
    """The gravest findings first. Raises as `receipts`."""
    _check(told)
    verdict, tone = _VERDICTS[told["verdict"]]
    findings = sorted(told["findings"], key=lambda each: _GRAVEST_FIRST.index(each["weight"]))
    return {
        "verdict": verdict.value,
        "tone": tone.value,
        "plan_ms": told["at_ms"],
        "silent": told["silent"],
        "lag_records": told["lag_records"],
        "lag_ms": told["lag_ms"],
        "newest_ms": told["newest_ms"],
        "group_count": len(told["groups"]),
        "read_again": told["read_again"],
        "unmoved_groups": [each["group"] for each in told["unmoved_groups"]],
        "findings": [
            {
                "weight": each["weight"],
                "tone": _WEIGHTS[each["weight"]].value,
                "code": each["code"],
                "text": each["text"],
            }
            for each in findings[:FINDINGS_MAX]
        ],
        "findings_hidden": max(0, len(findings) - FINDINGS_MAX),
    }


def _check(told: Mapping[str, Any]) -> None:
    if told["version"] != 1:
        raise OtherVersionError(f"the answer is of version {told['version']}, not 1")
