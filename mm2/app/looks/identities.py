"""Which clusters a flow's aliases lead to: their own ids."""

from __future__ import annotations

import contextlib

from connect_runtime.base import errors
from mm2.app.looks import mirrors, sides
from mm2.core.failover import orders


def look(both: sides.TwoSides, *, lost: bool, timeout_s: float) -> orders.Clusters:
    """A source that does not answer tells none, and one that is `lost` is not asked. Raises
    `RetriableError` and `FatalError` where the target does not answer, or one refuses us."""
    origin = ""
    if not lost:
        with contextlib.suppress(errors.RetriableError):
            origin = both.source.admin.cluster_id(mirrors.source_s(timeout_s))
    return orders.Clusters(origin=origin, destination=both.target.admin.cluster_id(timeout_s))
