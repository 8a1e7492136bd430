"""Checks the preconditions of all steps of a failover at its beginning, so that the failover fails
before anything is stopped."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mm2.failover.failover_request import ClusterIds, FailoverRequest
from mm2.failover.plan_findings import PlanFinding, PlanSeverity
from mm2.replication import transactional_ids
from mm2.suggested_commands import ClusterCommands

NO_CONNECTORS_CODE = "no-connectors"
NO_EXPORT_CODE = "no-export"
_ReadinessFinding, _Severity = PlanFinding, PlanSeverity


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedFailover:
    """Unfinished failover between the same clusters, found through its journal."""

    path: str
    request: FailoverRequest
    busy: bool
    """True if a process is currently executing the failover."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverReadiness:
    """Collected preconditions of a failover."""

    flow: str
    config_topic: str = ""
    """Config topic of the flow's Connect group, on the destination."""
    connectors: Sequence[str] = ()
    """The flow's connectors that have a configuration in its Connect group."""
    may_stop: bool | None = None
    """True if mm2 is authorized to write the config topic; None if unknown."""
    denied_ids: Sequence[str] = ()
    """Transactional ids that mm2 is not authorized to use."""
    denied_groups: Sequence[str] = ()
    """Groups whose offsets mm2 is not authorized to write."""
    journal_error: str = ""
    """Reason why the journal cannot be created, or "" if it can."""
    export_error: str = ""
    """Reason why the export file cannot be created, or "" if it can."""
    hook_errors: Mapping[str, str] = field(default_factory=dict)
    """Reasons why hook commands cannot be run, by the step that runs the command."""
    unfinished_failovers: Sequence[UnfinishedFailover] = ()
    """Unfinished failovers between the same clusters."""
    clusters: ClusterIds = field(default_factory=ClusterIds)
    unchecked: Sequence[str] = ()
    """Checks that could not be performed, each with the reason. Later steps may fail because of
    them."""
    worker: ClusterCommands = field(default_factory=ClusterCommands)
    """Builds the suggested commands that authorize the principal that stops the flow on the
    destination."""
    admin: ClusterCommands = field(default_factory=ClusterCommands)
    """Builds the suggested commands that authorize the principal that writes offsets on the
    destination."""
    producer: ClusterCommands = field(default_factory=ClusterCommands)
    """Builds the suggested commands that authorize the principal that fences writers on the
    destination."""


def explain_missing_connectors(flow: str, destination: str) -> str:
    """Explain that the flow cannot be stopped because no connectors are configured, and what to
    do."""
    return (
        f"no connectors of {flow} are configured on {destination}, so the flow cannot be stopped "
        "durably: check that this is the flow's configuration file. Otherwise stop the flow "
        f"manually, and add --accept {NO_CONNECTORS_CODE}"
    )


def check_readiness(request: FailoverRequest, ready: FailoverReadiness) -> Iterator[PlanFinding]:
    """Yield the findings about a failover's preconditions, before the operator's acceptance is
    applied, the most severe first."""
    yield from _check_clusters(request, ready)
    yield from _check_files_and_hooks(ready)
    yield from _check_authorization(request, ready)
    for each in ready.unchecked:
        yield _ReadinessFinding(
            severity=_Severity.NOTE,
            code="unchecked",
            text=f"not checked, may fail later: {each}",
        )


def _check_clusters(wanted: FailoverRequest, ready: FailoverReadiness) -> Iterator[PlanFinding]:
    ids = ready.clusters
    if ids.origin and ids.origin == ids.destination:
        text = f"{wanted.origin} and {wanted.destination} are the same cluster, {ids.origin}"
        yield _ReadinessFinding(severity=_Severity.FORBIDS, code="one-cluster", text=text)
    for each in ready.unfinished_failovers:
        if each.busy:
            text = (
                f"{each.path}: another process is moving groups between these clusters; wait until "
                "it has finished"
            )
            yield _ReadinessFinding(severity=_Severity.FORBIDS, code="other-move", text=text)
            continue
        begun = dataclasses.replace(each.request, file=wanted.file)
        go_on = begun.build_command("--resume", "--journal", each.path)
        text = (
            f"{each.path}: a {each.request.kind.value} between these clusters is not finished: "
            f"resume it ({go_on}), or move the file to another directory if it was abandoned"
        )
        yield _ReadinessFinding(severity=_Severity.COSTS, code="unfinished-move", text=text)
    if not ready.connectors and ready.config_topic:
        text = explain_missing_connectors(ready.flow, wanted.destination)
        yield _ReadinessFinding(severity=_Severity.FORBIDS, code=NO_CONNECTORS_CODE, text=text)


def _check_files_and_hooks(ready: FailoverReadiness) -> Iterator[PlanFinding]:
    for code, why in (("no-journal", ready.journal_error), (NO_EXPORT_CODE, ready.export_error)):
        if why:
            yield _ReadinessFinding(severity=_Severity.FORBIDS, code=code, text=why)
    for step, why in sorted(ready.hook_errors.items()):
        text = f"the hook {step} cannot be run: {why}"
        yield _ReadinessFinding(severity=_Severity.FORBIDS, code="no-hook", text=text)


def _check_authorization(
    wanted: FailoverRequest, ready: FailoverReadiness
) -> Iterator[PlanFinding]:
    there = wanted.destination
    if ready.may_stop is False:
        yield _ReadinessFinding(
            severity=_Severity.FORBIDS,
            code="stop-denied",
            text=f"the flow cannot be stopped: not authorized to write {ready.config_topic} on "
            f"{there}; "
            + _format_grant(ready.worker.build_allow_topic_command(ready.config_topic, "Write")),
        )
    for group in ready.denied_groups:
        yield _ReadinessFinding(
            severity=_Severity.FORBIDS,
            code="group-write-denied",
            text=f"group {group} cannot be moved: not authorized to write its offsets on "
            f"{there}; {_format_grant(ready.admin.build_allow_groups_command([group], 'Read'))}",
            group=group,
        )
    if ready.denied_ids:
        prefix = transactional_ids.format_transactional_id_prefix(ready.flow)
        yield _ReadinessFinding(
            severity=_Severity.COSTS,
            code="unfenced",
            text=f"not authorized for transactional ids on {there}, so their writers cannot be "
            f"fenced: {_summarize_names(ready.denied_ids)}; "
            f"{_format_grant(ready.producer.build_allow_transactional_ids_command(prefix))}",
        )


def _format_grant(command: str) -> str:
    return f"to grant it: {command}"


def _summarize_names(names: Collection[str]) -> str:
    first = min(names)
    return first if len(names) == 1 else f"{first} and {len(names) - 1} more"
