"""How each step was read back, in words: from what it noted in the journal.

What a later step reads back is said with that step's name. Of a hook its end is read; of what is
left to the operator nothing, and the steps that will show it are named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connect_runtime.base import amounts
from mm2.core.failover import steps

Detail = Mapping[str, Any]
Step = steps.Step
_LINE_MAX = 200
"""Of what a hook said last."""


def text(step: steps.Step, detail: Detail) -> str:
    """A line, without the full stop."""
    return _SHOWN[step] if _is_left_to_operator(detail) else _TEXTS[step](detail)


def line(step: steps.Step, detail: Detail) -> str:
    """The same, with what it is about, as it is told while a move goes on."""
    verb = "LEFT TO YOU" if _is_left_to_operator(detail) else "VERIFIED"
    return f"{verb} {step.value}: {text(step, detail)}"


def _is_left_to_operator(detail: Detail) -> bool:
    return "by" in detail


def _record(detail: Detail) -> str:
    plan = detail["plan"]
    groups = amounts.counted(len(plan["groups"]), "group")
    return f"on the disk: {amounts.counted(len(plan['partitions']), 'partition')}, {groups}"


def _export(detail: Detail) -> str:
    records = amounts.counted(detail["records"], "record")
    return f"in {detail['file']}, as many as were counted: {records}"


def _by_hook(detail: Detail) -> str:
    last = detail["output"].rpartition("\n")[2][:_LINE_MAX]
    return "the command ended with 0" + (f": {last}" if last else "")


def _idle(detail: Detail) -> str:
    return f"{amounts.counted(len(detail['groups']), 'group')} without members"


def _agree(detail: Detail) -> str:
    partitions = amounts.counted(len(detail["ends"]), "partition")
    return f"the same ends on both clusters at two looks: {partitions}"


def _stop_flow(detail: Detail) -> str:
    if not detail["connectors"]:
        return "there is nothing to stop, as was accepted"
    stopped = f"down as stopped: {', '.join(detail['connectors'])}"
    running = detail["still_running"]
    if not running:
        return f"{stopped}; no task runs"
    return f"{stopped}; not heard of as ended: {', '.join(running)}"


def _fence(detail: Detail) -> str:
    fenced = [each for each in detail["partitions"] if not each["unfenced"]]
    unfenced = len(detail["partitions"]) - len(fenced)
    tail = sum(each["tail"] or 0 for each in fenced)
    said = (
        f"{amounts.counted(len(fenced), 'marker')} of ours, and nobody has taken a partition since"
    )
    if tail:
        said += f"; {amounts.counted(tail, 'record')} stood there that the flow had not noted yet"
    return f"{said}; {unfenced} not fenced" if unfenced else said


def _look_again(detail: Detail) -> str:
    again = detail["fenced_again"]
    fences = (
        f"{amounts.counted(len(again), 'partition')} fenced once more"
        if again
        else "the fences hold"
    )
    return f"{fences}; final positions of {amounts.counted(len(detail['groups']), 'group')}"


def _move_groups(detail: Detail) -> str:
    moved, left = amounts.counted(len(detail["groups"]), "group"), detail["left"]
    said = f"the coordinators have taken {moved}; {Step.VERIFY.value} reads them"
    return f"{said}; left as they are, as was accepted: {', '.join(left)}" if left else said


def _verify(detail: Detail) -> str:
    found = detail["positions"]
    before = sum(each["before"] for each in found)
    further = sum(not each["before"] and each["stands_at"] > each["moved_to"] for each in found)
    said = f"{amounts.counted(len(found), 'position')}: {len(found) - before - further} as written"
    if further:
        said += f", {further} further"
    return f"{said}, {before} before, as was accepted" if before else said


def _report(_: Detail) -> str:
    return "all steps are in the journal"


_SHOWN: Mapping[steps.Step, str] = {
    Step.STOP_PRODUCERS: f"{Step.AGREE.value} waits until nobody writes",
    Step.STOP_CONSUMERS: f"{Step.IDLE.value} waits until no group has members",
    Step.START_CONSUMERS: f"{Step.REPORT.value} says which groups have members",
    Step.START_PRODUCERS: "nothing waits for it",
}
_TEXTS: Mapping[steps.Step, Callable[[Detail], str]] = {
    Step.RECORD: _record,
    Step.EXPORT: _export,
    Step.STOP_PRODUCERS: _by_hook,
    Step.STOP_CONSUMERS: _by_hook,
    Step.IDLE: _idle,
    Step.AGREE: _agree,
    Step.STOP_FLOW: _stop_flow,
    Step.FENCE: _fence,
    Step.LOOK_AGAIN: _look_again,
    Step.MOVE_GROUPS: _move_groups,
    Step.VERIFY: _verify,
    Step.START_CONSUMERS: _by_hook,
    Step.START_PRODUCERS: _by_hook,
    Step.REPORT: _report,
}
