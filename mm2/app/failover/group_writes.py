"""Writes the groups' positions on the cluster gone to, and reads them back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app.failover import tools
from mm2.cluster import errors as cluster_errors
from mm2.core.failover import codes, details, orders
from mm2.core.offsets import checkpoints, group_sync


def write(
    about: tools.Tools,
    finals: Mapping[str, details.Final],
    wanted: orders.Wanted,
    *,
    moved: Collection[str],
    note: Callable[[str], object],
) -> list[str]:
    """Who stands there already, or has got further, is not written again: it may be that we died
    behind the write, or that somebody consumes there by now. `note` is told of each group that
    stands. The groups that stay as they are, as that is accepted; raises `RetriableError` where
    others do."""
    groups, timeout_s = about.both.target.groups, about.planner.timeout_s
    standing = groups.positions([name for name in finals if name not in moved], timeout_s)
    writes = {name: finals[name].to_write(stands) for name, stands in standing.done.items()}
    written = groups.write({name: each for name, each in writes.items() if each}, tools.WRITE_S)
    whole = {name for name, places in written.done.items() if not places}
    for name in sorted(writes):
        if name in whole or not writes[name]:
            note(name)
    refused = [
        f"group {name}, {place}: {error}"
        for name, places in sorted(written.done.items())
        for place, error in places.items()
    ]
    left = []
    for name, failure in sorted({**standing.failed, **written.failed}.items()):
        code = _code(failure)
        if wanted.accepts(code, name):
            left.append(name)
        else:
            refused.append(f"group {name}: {failure} (to leave it: --accept {code}:{name})")
    if refused:
        raise errors.RetriableError(f"not all groups were moved: {'; '.join(refused)}")
    return left


def _code(failure: errors.ConnectError) -> str:
    """By which a plan forbids the same, and an operator accepts it."""
    if isinstance(failure, cluster_errors.GroupInUseError):
        return codes.GROUP_ACTIVE
    if isinstance(failure, kafka_errors.NotAuthorizedError):
        return codes.GROUP_DENIED
    return codes.GROUP_UNKNOWN


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
        if not finals[name].to_write(at):
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
