"""What a move will need later, looked at before anything is stopped: what would fail then is said
now."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mm2.core import commands
from mm2.core.failover import orders, verdicts

NO_CONNECTORS = "no-connectors"
NO_EXPORT = "no-export"
_Finding, _Weight = verdicts.Finding, verdicts.Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherMove:
    """A journal of a move between the same clusters that is not done. `busy`: a process does it
    now."""

    path: str
    wanted: orders.Wanted
    busy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
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
    others: Sequence[OtherMove] = ()
    clusters: orders.Clusters = field(default_factory=orders.Clusters)
    unlooked: Sequence[str] = ()
    worker: commands.Cluster = field(default_factory=commands.Cluster)
    admin: commands.Cluster = field(default_factory=commands.Cluster)
    producer: commands.Cluster = field(default_factory=commands.Cluster)


def no_connectors(flow: str, destination: str) -> str:
    """In words, with the way on."""
    return (
        f"nothing is known of connectors of {flow} on {destination}, so nothing can be stopped "
        "durably: is this the file that it runs with? Stop it by hand and --accept "
        f"{NO_CONNECTORS}"
    )


def find(wanted: orders.Wanted, ready: Ready) -> Iterator[verdicts.Finding]:
    """Gravest first, as weighed here."""
    yield from _of_clusters(wanted, ready)
    yield from _of_files(ready)
    yield from _of_rights(wanted, ready)
    for each in ready.unlooked:
        yield _Finding(weight=_Weight.NOTE, code="not-looked-at", text=f"it may fail later: {each}")


def _of_clusters(wanted: orders.Wanted, ready: Ready) -> Iterator[verdicts.Finding]:
    ids = ready.clusters
    if ids.origin and ids.origin == ids.destination:
        text = f"{wanted.origin} and {wanted.destination} are one cluster, {ids.origin}"
        yield _Finding(weight=_Weight.FORBIDS, code="one-cluster", text=text)
    for each in ready.others:
        if each.busy:
            text = f"{each.path}: another process moves between these clusters now; wait for it"
            yield _Finding(weight=_Weight.FORBIDS, code="other-move", text=text)
            continue
        begun = dataclasses.replace(each.wanted, file=wanted.file)
        go_on = begun.command("--resume", "--journal", each.path)
        text = (
            f"{each.path}: a {each.wanted.kind.value} between these clusters was begun and is not "
            f"done: go on with it ({go_on}), or move the file away if it was given up"
        )
        yield _Finding(weight=_Weight.COSTS, code="unfinished-move", text=text)
    if not ready.connectors and ready.config_topic:
        text = no_connectors(ready.flow, wanted.destination)
        yield _Finding(weight=_Weight.FORBIDS, code=NO_CONNECTORS, text=text)


def _of_files(ready: Ready) -> Iterator[verdicts.Finding]:
    for code, why in (("no-journal", ready.no_journal), (NO_EXPORT, ready.no_export)):
        if why:
            yield _Finding(weight=_Weight.FORBIDS, code=code, text=why)
    for step, why in sorted(ready.no_hooks.items()):
        text = f"the hook {step} cannot be run: {why}"
        yield _Finding(weight=_Weight.FORBIDS, code="no-hook", text=text)


def _of_rights(wanted: orders.Wanted, ready: Ready) -> Iterator[verdicts.Finding]:
    there = wanted.destination
    if ready.may_stop is False:
        yield _Finding(
            weight=_Weight.FORBIDS,
            code="may-not-stop",
            text=f"the flow cannot be stopped: we have no right to write {ready.config_topic} on "
            f"{there}; {_granted(ready.worker.allow_topic(ready.config_topic, 'Write'))}",
        )
    for group in ready.denied_groups:
        yield _Finding(
            weight=_Weight.FORBIDS,
            code="group-denied",
            text=f"group {group} cannot be moved: we have no right to write its positions on "
            f"{there}; {_granted(ready.admin.allow_named_groups([group], 'Read'))}",
            group=group,
        )
    if ready.denied_ids:
        prefix = f"mm2-{ready.flow}-"
        yield _Finding(
            weight=_Weight.COSTS,
            code="unfenced",
            text=f"{_some(ready.denied_ids)}: we have no right to these transactional ids on "
            f"{there}, so who copies still cannot be locked out; "
            f"{_granted(ready.producer.allow_transactional_ids(prefix))}",
        )


def _granted(command: str) -> str:
    return f"grant it: {command}"


def _some(names: Collection[str]) -> str:
    first = min(names)
    return first if len(names) == 1 else f"{first} and {len(names) - 1} more"
