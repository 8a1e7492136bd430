"""What never left the cluster gone to goes to a file, before anything is touched."""

from __future__ import annotations

import pathlib

from connect_runtime.base import errors
from mm2.app.failover import tools
from mm2.core.failover import orders


def write(about: tools.Tools, wanted: orders.Wanted, *, move: str) -> int:
    """Into the file `wanted.export`, for the move of this name; how many records. Neither cluster
    is changed.

    Raises `FatalError`, also where they cannot be counted, and `RetriableError`.
    """
    _, left = about.planner.look(wanted)
    unknown = [f"{place}" for place, tail in sorted(left.items()) if tail.stretches is None]
    if unknown:
        raise errors.FatalError(
            f"{', '.join(unknown)}: more records than can be counted never left "
            f"{wanted.destination}; copy them by other means, or do without --export"
        )
    ordered = [tail for _, tail in sorted(left.items())]
    return about.export(pathlib.Path(wanted.export), ordered, move)
