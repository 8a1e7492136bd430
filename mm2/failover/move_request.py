"""`MoveRequest`: the move of consumer groups that an operator asks for, and the command to type."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mm2 import operator_commands


class MoveKind(enum.Enum):
    """EMERGENCY: `from` is lost, or as good as; PLANNED and BACK: both clusters serve, nothing may
    be lost. BACK returns to the cluster that was left before."""

    EMERGENCY = "failover"
    PLANNED = "switch-over"
    BACK = "failback"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRequest:
    """`accepted`: codes of findings that shall not forbid, each for all or, as `CODE:GROUP`, for
    one group. `groups` empty: those of the flow. `export`: where what never left `destination`
    is written to first, "" for nowhere; a move back alone has it. `file` configures it, however it
    is named just now: commands are told with its name."""

    origin: str
    destination: str
    kind: MoveKind
    sets_back: bool = False
    accepted: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    export: str = ""
    file: str = operator_commands.DEFAULT_CONFIG_FILE

    @property
    def planned(self) -> bool:
        """Do both clusters serve?"""
        return self.kind is not MoveKind.EMERGENCY

    def accepts(self, code: str, group: str = "") -> bool:
        """Has the operator accepted this finding, of all groups or of this one?"""
        return code in self.accepted or f"{code}:{group}" in self.accepted

    def command(self, *more: str) -> str:
        """What is typed to begin such a move, and with `more` words to go on with it."""
        verb = "failback" if self.kind is MoveKind.BACK else "failover"
        planned = ("--planned",) if self.kind is MoveKind.PLANNED else ()
        words = (*planned, *more)
        return operator_commands.build_move_command(
            verb, self.origin, self.destination, *words, file=self.file
        )

    def to_do_it(self, *more: str) -> str:
        """What is typed to have done what was asked for, with `more` words."""
        words = [word for each in sorted(self.groups) for word in ("--group", each)]
        words += [word for each in sorted(self.accepted) for word in ("--accept", each)]
        words += ["--set-back"] * self.sets_back
        words += ["--export", self.export] if self.export else []
        return self.command(*more, *words, "--execute")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIds:
    """The ids that both clusters gave themselves; "" of one that did not tell."""

    origin: str = ""
    destination: str = ""


def describe_changed_clusters(wanted: MoveRequest, begun: ClusterIds, now: ClusterIds) -> list[str]:
    """Of a move that was begun: aliases that now lead to another cluster than then, in words."""
    ends = (
        (wanted.origin, begun.origin, now.origin),
        (wanted.destination, begun.destination, now.destination),
    )
    return [
        f"{alias} was the cluster {was} when it was begun, and is {found} by this file"
        for alias, was, found in ends
        if was and found and was != found
    ]


def describe_contradictions(begun: MoveRequest, asked: MoveRequest) -> list[str]:
    """Of a move that was begun and is gone on with: what is asked for now and was not then, in
    words. Codes that are accepted now are no contradiction, they are taken in."""
    found = []
    ends = (begun.origin, begun.destination), (asked.origin, asked.destination)
    if ends[0] != ends[1]:
        found.append(f"it moves from {begun.origin} to {begun.destination}")
    if asked.kind not in {begun.kind, MoveKind.EMERGENCY}:
        found.append(f"it is a {begun.kind.value}, no {asked.kind.value}")
    if asked.sets_back and not begun.sets_back:
        found.append("it sets no group back")
    if asked.groups and asked.groups != begun.groups:
        said = ", ".join(sorted(begun.groups)) or "all of the flow"
        found.append(f"its groups are {said}")
    if asked.export and asked.export != begun.export:
        found.append(f"it exports to {begun.export or 'no file'}")
    return found
