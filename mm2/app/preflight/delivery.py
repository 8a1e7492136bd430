"""What `mm2 probe` finds of a flow, as findings of a preflight."""

from __future__ import annotations

from collections.abc import Iterator

from mm2.app import probe
from mm2.core import capabilities, commands
from mm2.core.copy import setup
from mm2.core.preflight import findings

_Delivery = capabilities.Delivery


def judge(found: probe.Found, target: commands.Cluster) -> Iterator[findings.Finding]:
    """Each reason by itself; with `delivery: at-least-once` nobody asked for more."""
    verdict, flow = found.verdict, found.flow
    wants_less = flow.delivery is setup.Delivery.AT_LEAST_ONCE
    denied = any(
        found.target.answer(check).outcome is capabilities.Outcome.DENIED
        for check in capabilities.Check
    )
    for reason in verdict.reasons:
        if verdict.delivery is _Delivery.NONE:
            yield _finding(
                found,
                "protocol",
                reason,
                means="the flow cannot be mirrored",
                mend="use newer brokers",
                weight=findings.Weight.FAILED,
            )
        elif not wants_less:
            yield _finding(
                found,
                "at-least-once",
                reason,
                means="nobody can be fenced: restarts may copy records twice",
                mend="grant what is named, or say delivery: at-least-once",
                weight=findings.Weight.WARNING,
                word=findings.Word.RIGHTS if denied else findings.Word.PROTOCOL,
                command=target.allow_transactional_ids(f"mm2-{flow.name}-") if denied else "",
            )
    for note in verdict.notes:
        yield _finding(
            found,
            "delivery-note",
            note,
            means="copying goes on in spite of it",
            mend="nothing, unless it says so",
            weight=findings.Weight.NOTE,
        )


def _finding(
    found: probe.Found,
    code: str,
    text: str,
    *,
    means: str,
    mend: str,
    weight: findings.Weight,
    word: findings.Word = findings.Word.PROTOCOL,
    command: str = "",
) -> findings.Finding:
    return findings.Finding(
        subject=found.flow.name,
        word=word,
        weight=weight,
        code=code,
        text=text,
        means=means,
        mend=mend,
        command=command,
    )
