"""What it means for the copies how many slots their engine has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from connect_runtime.base import amounts
from mm2.core import commands
from mm2.core.preflight import findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """`failure`: why the engine does not start, "" where it does. `unreachable`: nobody answers at
    the master's address.

    `slots`: how many copies can run at once, None: not limited. `wanted`: how many are to run at
    the same time on this node, if it is alone.
    """

    master: str
    failure: str = ""
    unreachable: str = ""
    slots: int | None
    wanted: int


def judge(seen: Seen) -> Iterator[findings.Finding]:
    """At most one."""
    if seen.unreachable:
        yield _finding(
            "spark-master",
            f"nobody answers at {seen.unreachable}: {seen.failure}",
            means="no copy runs",
            mend="correct master in the spark section, or start the master there",
            command=commands.try_port(seen.unreachable),
        )
    elif seen.failure:
        yield _finding(
            "spark-start",
            seen.failure,
            means="no copy runs",
            mend="mend what Spark names; its log tells more",
        )
    elif seen.slots is not None and seen.slots < seen.wanted:
        none = seen.slots == 0
        yield _finding(
            "spark-no-slots" if none else "spark-few-slots",
            f"{seen.master} gives {amounts.counted(seen.slots, 'slot')}, the flows' tasks need "
            f"{seen.wanted}",
            means="no copy runs, until others free cores"
            if none
            else f"{amounts.counted(seen.wanted - seen.slots, 'copy', 'wait')} until others end",
            mend="lower tasks.max, or give Spark more cores: more workers, spark.cores.max, or "
            "local[N]",
            weight=findings.Weight.FAILED if none else findings.Weight.WARNING,
        )


def _finding(
    code: str,
    text: str,
    *,
    means: str,
    mend: str,
    weight: findings.Weight = findings.Weight.FAILED,
    command: str = "",
) -> findings.Finding:
    return findings.Finding(
        subject=findings.ENGINE,
        word=findings.Word.SPARK,
        weight=weight,
        code=code,
        text=text,
        means=means,
        mend=mend,
        command=command,
    )
