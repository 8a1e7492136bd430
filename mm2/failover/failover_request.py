"""Defines `FailoverRequest`: the failover or failback that an operator requests, and its command
line."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mm2 import suggested_commands


class FailoverKind(enum.Enum):
    """Kind of failover, which determines whether the origin must be available."""

    EMERGENCY = "failover"
    """The origin is lost or unreliable; data loss is possible."""
    PLANNED = "switch-over"
    """Both clusters are available; no record may be lost."""
    BACK = "failback"
    """Failback to the original cluster; both clusters are available, no record may be lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverRequest:
    """Groups to move, origin and destination of the failover, and the risks that the operator has
    accepted."""

    origin: str
    destination: str
    kind: FailoverKind
    rewind: bool = False
    """True to move groups also to positions lower than their current positions on the
    destination."""
    accepted: frozenset[str] = frozenset()
    """Accepted finding codes: `CODE` for all groups or `CODE:GROUP` for one."""
    groups: frozenset[str] = frozenset()
    """Groups to move; empty for all groups of the flow."""
    export: str = ""
    """File to which the records of `destination` that were never replicated to `origin` are
    exported (failback only); "" for none."""
    file: str = suggested_commands.DEFAULT_CONFIG_FILE
    """Name of the configuration file, used in the commands that are suggested to the operator."""

    @property
    def is_planned(self) -> bool:
        """True if both clusters must be available."""
        return self.kind is not FailoverKind.EMERGENCY

    def is_finding_accepted(self, code: str, group: str = "") -> bool:
        """Return True if the operator has accepted this finding for all groups or for `group`."""
        return code in self.accepted or f"{code}:{group}" in self.accepted

    def build_command(self, *more: str) -> str:
        """Build the command line of this failover without the request's options. The arguments in
        `more`, such as `--resume`, are added."""
        verb = "failback" if self.kind is FailoverKind.BACK else "failover"
        planned = ("--planned",) if self.kind is FailoverKind.PLANNED else ()
        words = (*planned, *more)
        return suggested_commands.build_failover_command(
            verb, self.origin, self.destination, *words, file=self.file
        )

    def build_execute_command(self, *more: str) -> str:
        """Build the command line that executes this request, with all its options. The arguments in
        `more` are added."""
        words = [word for each in sorted(self.groups) for word in ("--group", each)]
        words += [word for each in sorted(self.accepted) for word in ("--accept", each)]
        words += ["--rewind"] * self.rewind
        words += ["--export", self.export] if self.export else []
        return self.build_command(*more, *words, "--execute")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIds:
    """Kafka cluster ids of origin and destination; "" if a cluster did not respond."""

    origin: str = ""
    destination: str = ""


def describe_changed_clusters(
    request: FailoverRequest, begun: ClusterIds, now: ClusterIds
) -> list[str]:
    """Describe each alias that now refers to a different cluster than when the failover began."""
    ends = (
        (request.origin, begun.origin, now.origin),
        (request.destination, begun.destination, now.destination),
    )
    return [
        f"{alias} was cluster {was} when the failover began, and is {found} in this file"
        for alias, was, found in ends
        if was and found and was != found
    ]


def describe_contradictions(begun: FailoverRequest, requested: FailoverRequest) -> list[str]:
    """Describe how the options of a resumed failover contradict the original request.

    Newly accepted finding codes are not a contradiction: they are added to the failover.
    """
    found = []
    ends = (begun.origin, begun.destination), (requested.origin, requested.destination)
    if ends[0] != ends[1]:
        found.append(f"the failover goes from {begun.origin} to {begun.destination}")
    if requested.kind not in {begun.kind, FailoverKind.EMERGENCY}:
        found.append(f"the journal is of a {begun.kind.value}, not of a {requested.kind.value}")
    if requested.rewind and not begun.rewind:
        found.append("the failover was begun without --rewind")
    if requested.groups and requested.groups != begun.groups:
        said = ", ".join(sorted(begun.groups)) or "all groups of the flow"
        found.append(f"the failover was begun for these groups: {said}")
    if requested.export and requested.export != begun.export:
        found.append(f"the failover exports records to {begun.export or 'no file'}")
    return found
