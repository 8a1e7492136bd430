"""Findings about what a move needs later, so that it fails before anything is stopped."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mm2.failover.move_request import ClusterIds, MoveRequest
from mm2.failover.plan_findings import PlanFinding, PlanSeverity
from mm2.operator_commands import ClusterCommands

NO_CONNECTORS_CODE = "no-connectors"
NO_EXPORT_CODE = "no-export"
_ReadinessFinding, _Severity = PlanFinding, PlanSeverity


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedMove:
    """A journal of a move between the same clusters that is not done. `busy`: a process does it
    now."""

    path: str
    wanted: MoveRequest
    busy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveReadiness:
    """`connectors` are those of the flow that its Connect group knows of; `may_stop`: may we write
    its `config_topic`, None where nobody tells. `denied_ids`: transactional ids that we have no
    right to; `denied_groups`: groups whose positions we may not write. `no_journal` and `no_export`
    say why the file cannot be written, "" where it can; `no_hooks` by step why a command cannot be
    run. `unlooked`: what could not be looked at, and why. `worker`, `admin` and `producer` are the
    cluster gone to as the logins see it that stop, move groups and fence."""

    flow: str
    config_topic: str = ""
    connectors: Sequence[str] = ()
    may_stop: bool | None = None
    denied_ids: Sequence[str] = ()
    denied_groups: Sequence[str] = ()
    no_journal: str = ""
    no_export: str = ""
    no_hooks: Mapping[str, str] = field(default_factory=dict)
    others: Sequence[UnfinishedMove] = ()
    clusters: ClusterIds = field(default_factory=ClusterIds)
    unlooked: Sequence[str] = ()
    worker: ClusterCommands = field(default_factory=ClusterCommands)
    admin: ClusterCommands = field(default_factory=ClusterCommands)
    producer: ClusterCommands = field(default_factory=ClusterCommands)


def explain_no_connectors(flow: str, destination: str) -> str:
    """In words, with the way on."""
    return (
        f"nothing is known of connectors of {flow} on {destination}, so nothing can be stopped "
        "durably: is this the file that it runs with? Stop it by hand and --accept "
        f"{NO_CONNECTORS_CODE}"
    )


def check_readiness(wanted: MoveRequest, ready: MoveReadiness) -> Iterator[PlanFinding]:
    """Gravest first, as weighed here."""
    yield from _check_clusters(wanted, ready)
    yield from _check_files(ready)
    yield from _check_authorization(wanted, ready)
    for each in ready.unlooked:
        yield _ReadinessFinding(
            weight=_Severity.NOTE, code="not-looked-at", text=f"it may fail later: {each}"
        )


def _check_clusters(wanted: MoveRequest, ready: MoveReadiness) -> Iterator[PlanFinding]:
    ids = ready.clusters
    if ids.origin and ids.origin == ids.destination:
        text = f"{wanted.origin} and {wanted.destination} are one cluster, {ids.origin}"
        yield _ReadinessFinding(weight=_Severity.FORBIDS, code="one-cluster", text=text)
    for each in ready.others:
        if each.busy:
            text = f"{each.path}: another process moves between these clusters now; wait for it"
            yield _ReadinessFinding(weight=_Severity.FORBIDS, code="other-move", text=text)
            continue
        begun = dataclasses.replace(each.wanted, file=wanted.file)
        go_on = begun.command("--resume", "--journal", each.path)
        text = (
            f"{each.path}: a {each.wanted.kind.value} between these clusters was begun and is not "
            f"done: go on with it ({go_on}), or move the file away if it was given up"
        )
        yield _ReadinessFinding(weight=_Severity.COSTS, code="unfinished-move", text=text)
    if not ready.connectors and ready.config_topic:
        text = explain_no_connectors(ready.flow, wanted.destination)
        yield _ReadinessFinding(weight=_Severity.FORBIDS, code=NO_CONNECTORS_CODE, text=text)


def _check_files(ready: MoveReadiness) -> Iterator[PlanFinding]:
    for code, why in (("no-journal", ready.no_journal), (NO_EXPORT_CODE, ready.no_export)):
        if why:
            yield _ReadinessFinding(weight=_Severity.FORBIDS, code=code, text=why)
    for step, why in sorted(ready.no_hooks.items()):
        text = f"the hook {step} cannot be run: {why}"
        yield _ReadinessFinding(weight=_Severity.FORBIDS, code="no-hook", text=text)


def _check_authorization(wanted: MoveRequest, ready: MoveReadiness) -> Iterator[PlanFinding]:
    there = wanted.destination
    if ready.may_stop is False:
        yield _ReadinessFinding(
            weight=_Severity.FORBIDS,
            code="may-not-stop",
            text=f"the flow cannot be stopped: we have no right to write {ready.config_topic} on "
            f"{there}; {_format_grant(ready.worker.allow_topic(ready.config_topic, 'Write'))}",
        )
    for group in ready.denied_groups:
        yield _ReadinessFinding(
            weight=_Severity.FORBIDS,
            code="group-denied",
            text=f"group {group} cannot be moved: we have no right to write its positions on "
            f"{there}; {_format_grant(ready.admin.allow_named_groups([group], 'Read'))}",
            group=group,
        )
    if ready.denied_ids:
        prefix = f"mm2-{ready.flow}-"
        yield _ReadinessFinding(
            weight=_Severity.COSTS,
            code="unfenced",
            text=f"{_summarize_names(ready.denied_ids)}: we have no right to these "
            "transactional ids on "
            f"{there}, so who copies still cannot be locked out; "
            f"{_format_grant(ready.producer.allow_transactional_ids(prefix))}",
        )


def _format_grant(command: str) -> str:
    return f"grant it: {command}"


def _summarize_names(names: Collection[str]) -> str:
    first = min(names)
    return first if len(names) == 1 else f"{first} and {len(names) - 1} more"
