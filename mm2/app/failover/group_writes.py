"""Writes the groups' positions on the cluster gone to, and reads them back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from connect_runtime.base import errors
from mm2.app.failover import tools
from mm2.core.failover import details
from mm2.core.offsets import checkpoints, group_sync


def write(
    about: tools.Tools,
    finals: Mapping[str, details.Final],
    *,
    moved: Collection[str],
    note: Callable[[str], object],
) -> None:
    """Who stands there already, or has got further, is not written again: it may be that we died
    behind the write, or that somebody consumes there by now. `note` is told of each group that
    stands; raises `RetriableError` where not all do."""
    groups, timeout_s = about.both.target.groups, about.planner.timeout_s
    waiting = {name: each for name, each in finals.items() if name not in moved}
    standing = groups.positions(list(waiting), timeout_s)
    failure = standing.first_failure()
    if failure is not None:
        raise failure
    writes = {
        name: {
            place: at
            for place, at in each.positions.items()
            if each.is_to_be_written(place, standing.done[name].get(place))
        }
        for name, each in waiting.items()
    }
    written = groups.write({name: each for name, each in writes.items() if each}, tools.WRITE_S)
    refused = [f"group {name}: {error}" for name, error in sorted(written.failed.items())] + [
        f"group {name}, {place}: {error}"
        for name, places in sorted(written.done.items())
        for place, error in places.items()
    ]
    whole = {name for name, places in written.done.items() if not places}
    for name in sorted(waiting):
        if name in whole or not writes[name]:
            note(name)
    if refused:
        raise errors.RetriableError(f"not all groups were moved: {'; '.join(refused)}")


def note_written(
    about: tools.Tools,
    finals: Mapping[str, details.Final],
    *,
    moved: Collection[str],
    note: Callable[[str], object],
) -> None:
    """Whoever has members there by now, and stands, was written before we died: `note` is told."""
    groups, timeout_s = about.both.target.groups, about.planner.timeout_s
    states = groups.states([name for name in finals if name not in moved], timeout_s).done
    active = [name for name, state in states.items() if state is group_sync.GroupState.ACTIVE]
    for name, at in sorted(groups.positions(active, timeout_s).done.items()):
        final = finals[name]
        if not any(final.is_to_be_written(place, at.get(place)) for place in final.positions):
            note(name)


def read_back(
    about: tools.Tools, finals: Mapping[str, details.Final]
) -> Mapping[str, checkpoints.Positions]:
    """Where the groups stand now."""
    found = about.both.target.groups.positions(list(finals), about.planner.timeout_s)
    failure = found.first_failure()
    if failure is not None:
        raise failure
    return found.done
