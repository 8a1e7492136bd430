"""What is to be said of a move, from what was seen: what forbids it, what it costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from connect_runtime.base import amounts
from mm2.core.failover import group_findings, group_moves, orders, seen, verdicts

_Weight, _Finding = verdicts.Weight, verdicts.Finding
_TELLS_LESS = frozenset(
    {
        "origin-unreachable",
        "groups-unlisted",
        "group-unread",
        "as-of-checkpoint",
        "way-back-unknown",
    }
)
"""Of a cluster that is left that told more when the move was begun: nobody has agreed to it."""


def find(
    wanted: orders.Wanted,
    found: seen.Seen,
    groups: Sequence[group_moves.GroupMove],
    *,
    settled: seen.Settled | None,
) -> Iterator[verdicts.Finding]:
    """As weighed here: what the operator accepts is not looked at. `settled` as in `plan.make`."""
    before = found.before
    for each in _find(wanted, found, groups, settled=settled):
        known = before is None or (each.code, each.group) in before.findings
        if known or each.code not in _TELLS_LESS:
            yield each
        else:
            text = f"{each.text}; it was not so when the move was begun"
            yield dataclasses.replace(each, weight=_Weight.FORBIDS, text=text)


def _find(
    wanted: orders.Wanted,
    found: seen.Seen,
    groups: Sequence[group_moves.GroupMove],
    *,
    settled: seen.Settled | None,
) -> Iterator[verdicts.Finding]:
    yield from _of_ends(wanted, found)
    yield from _of_list(wanted, found, groups)
    for each in found.mirrored:
        yield from _of_mirror(wanted, each)
        if not found.silent:
            yield from _of_lag(wanted, each, settled)
    for tail in found.unreplicated:
        yield from _of_tail(wanted, tail)
    yield from _of_half(wanted, found, groups)
    yield from _of_names(wanted, found, groups)
    yield from _of_gone(wanted, found, groups)
    for group in groups:
        yield from group_findings.find(wanted, found, group, final=settled is not None)
    for unmoved in found.unmoved:
        yield group_findings.of_unmoved(wanted, found, unmoved)


def _of_ends(wanted: orders.Wanted, found: seen.Seen) -> Iterator[verdicts.Finding]:
    here, there = wanted.origin, wanted.destination
    if not found.mirrored:
        yield _Finding(
            weight=_Weight.FORBIDS,
            code="nothing-mirrored",
            text=f"the flow {found.flow} has mirrored nothing to {there} yet",
        )
    if found.silent:
        yield _Finding(
            weight=_Weight.FORBIDS if wanted.planned else _Weight.COSTS,
            code="origin-unreachable",
            text=f"{here} does not answer ({found.silent}): what it holds that {there} lacks "
            "cannot be counted; groups without checkpoints, and all share and streams groups, are "
            "unknown"
            + ("; a planned move needs both (leave --planned away if it is lost)" * wanted.planned),
        )
    for topic, why in sorted(found.left_out.items()):
        yield _Finding(
            weight=_Weight.NOTE, code="left-out", text=f"{topic} was mirrored once: {why}"
        )
    for partition, why in sorted(found.unfenced.items()):
        yield _Finding(
            weight=_Weight.COSTS,
            code="unfenced",
            text=f"{partition}: nobody is locked out ({why}); who copies it still may write on",
        )
    if found.losses:
        yield _Finding(
            weight=_Weight.NOTE,
            code="losses",
            text=f"{amounts.counted(found.losses, 'receipt', 'say')} that records were lost before:"
            " see mm2 receipts",
        )


def _of_list(
    wanted: orders.Wanted, found: seen.Seen, groups: Sequence[group_moves.GroupMove]
) -> Iterator[verdicts.Finding]:
    why = found.unlisted
    if found.silent and not groups and not why:
        why = (
            f"it does not answer, and no group of the flow has a checkpoint on {wanted.destination}"
        )
    if not why:
        return
    known = "those that have checkpoints are" if groups else "none is"
    yield _Finding(
        weight=_Weight.FORBIDS if wanted.planned or not groups else _Weight.COSTS,
        code="groups-unlisted",
        text=f"not all groups of {wanted.origin} may be known ({why}): {known}",
    )


def _of_half(
    wanted: orders.Wanted, found: seen.Seen, groups: Sequence[group_moves.GroupMove]
) -> Iterator[verdicts.Finding]:
    """`from` answers, but not for all that is asked of it."""
    here = wanted.origin
    weight = _Weight.FORBIDS if wanted.planned else _Weight.COSTS
    for topic, why in sorted(found.untold.items()):
        text = f"{topic}: {here} does not tell its partitions ({why}), so nothing is known of it"
        yield _Finding(weight=weight, code="lag-unknown", text=text)
    if found.way_back:
        yield _Finding(
            weight=weight,
            code="way-back-unknown",
            text=f"what the flow back has brought to {here} cannot be seen ({found.way_back}): "
            f"groups that read what came from {wanted.destination} may read more of it again",
        )
    if found.unsynced:
        yield _Finding(
            weight=_Weight.NOTE,
            code="syncs-unread",
            text=f"whether MirrorMaker 2 has copied since we did could not be seen "
            f"({found.unsynced})",
        )
    partly = (
        found.unlisted
        or found.untold
        or found.way_back
        or any(each.here is None for each in found.mirrored)
        or any(each.unread_why and not each.refused for each in groups)
    )
    if partly and not found.silent and not wanted.planned:
        yield _Finding(
            weight=_Weight.NOTE,
            code="half-lost",
            text=f"{here} answers for a part only; with --origin-lost nothing is asked of it, and "
            "all groups are moved by their last checkpoints",
        )


def _of_mirror(wanted: orders.Wanted, each: seen.Mirrored) -> Iterator[verdicts.Finding]:
    name = f"{each.partition}"
    if each.stopped:
        yield _Finding(
            weight=_Weight.FORBIDS, code="stopped", text=f"{name} is not copied: {each.stopped}"
        )
    if each.unheard:
        yield _Finding(
            weight=_Weight.FORBIDS,
            code="mirror-unknown",
            text=f"{name}: {wanted.destination} does not answer for {each.mirror} "
            f"({each.unheard}): ask again when it has a leader that does. Where this is accepted, "
            "groups go by the map alone, and who still copies it is not locked out",
        )
    elif each.there is None:
        yield _Finding(
            weight=_Weight.FORBIDS,
            code="mirror-missing",
            text=f"{name}: there is no {each.mirror} on {wanted.destination}",
        )
    if each.here is not None and each.copied_to is not None and each.copied_to > each.here.end:
        yield _Finding(
            weight=_Weight.FORBIDS,
            code="origin-truncated",
            text=f"{name} ends at {each.here.end} on {wanted.origin}, but was copied up to "
            f"{each.copied_to}: it was truncated, as where brokers died, or made anew. If nobody "
            f"has written there since, {wanted.destination} has all that it lost, and this may be "
            "accepted",
        )


def _of_lag(
    wanted: orders.Wanted, each: seen.Mirrored, settled: seen.Settled | None
) -> Iterator[verdicts.Finding]:
    """A planned move waits for what is missing, until the last look: then there is none."""
    name, here = f"{each.partition}", each.here
    if here is None:
        yield _Finding(
            weight=_Weight.FORBIDS if wanted.planned else _Weight.COSTS,
            code="lag-unknown",
            text=f"{name}: what {wanted.origin} holds of it that {wanted.destination} lacks "
            f"cannot be told ({each.unknown or 'it does not answer for it'})",
        )
        return
    weight, waited = _Weight.COSTS, ""
    if wanted.planned:
        weight = _Weight.NOTE if settled is None else _Weight.FORBIDS
        waited = " yet; what lacks is waited for" if settled is None else ""
    if each.lag_records:
        yield _Finding(
            weight=weight,
            code="lag",
            text=f"{name}: {amounts.counted(each.lag_records, 'record')} of {wanted.origin} "
            f"{amounts.agreeing(each.lag_records, 'are')} not on {wanted.destination}{waited}",
        )
    if here.pending:
        yield _Finding(
            weight=weight,
            code="open-transactions",
            text=f"{name}: {amounts.counted(here.pending, 'offset', 'stand')} behind a transaction "
            f"that is open on {wanted.origin}: what it commits later is not copied",
        )
    agreed = None if settled is None else settled.ends.get(each.partition)
    if settled is not None and agreed != here.end:
        yield _Finding(
            weight=_Weight.FORBIDS,
            code="ends-moved",
            text=f"{name} ends at {here.end} on {wanted.origin}, and did at {agreed} when both "
            "agreed: somebody writes there still",
        )


def _of_tail(wanted: orders.Wanted, each: seen.Unreplicated) -> Iterator[verdicts.Finding]:
    if each.records == 0:
        return
    here, there = wanted.origin, wanted.destination
    least = "at least " if each.records is None else ""
    count = least + amounts.counted(each.records or each.at_least, "record")
    text = f"{count} of {there} never reached {here}; who goes on there reads them now"
    if each.records is None and not each.at_least:
        why = each.why or "it could not be read to its end in time"
        text = f"what of {there} never reached {here} is not counted: {why}"
    yield _Finding(weight=_Weight.COSTS, code="unreplicated", text=f"{each.partition}: {text}")


def _of_names(
    wanted: orders.Wanted, found: seen.Seen, groups: Sequence[group_moves.GroupMove]
) -> Iterator[verdicts.Finding]:
    if not groups and not found.silent:
        yield _Finding(
            weight=_Weight.NOTE, code="no-groups", text="no group has a position to move"
        )
    named = {group.name for group in found.unmoved}
    named |= {group.group for group in groups if group.partitions or group.unread_why}
    nowhere = wanted.groups.difference(named)
    for name in sorted(nowhere):
        yield _Finding(
            weight=_Weight.FORBIDS,
            code="no-such-group",
            text=f"group {name} has no position on {wanted.origin}: is its name right?",
            group=name,
        )


def _of_gone(
    wanted: orders.Wanted, found: seen.Seen, groups: Sequence[group_moves.GroupMove]
) -> Iterator[verdicts.Finding]:
    before = frozenset[str]() if found.before is None else frozenset(found.before.positions)
    for name in sorted(before.difference(group.group for group in groups)):
        yield _Finding(
            weight=_Weight.FORBIDS,
            code="group-gone",
            text=f"group {name} had positions on {wanted.origin} when the move was begun, and has "
            "none now: it would not be moved",
            group=name,
        )
