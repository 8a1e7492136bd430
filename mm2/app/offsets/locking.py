"""Every earlier writer of a mirror's partition locked out, for good."""

from __future__ import annotations

from mm2.core.offsets import rebuilt_map
from mm2.pipeline import fenced_partition


def lock(place: fenced_partition.FencedPartition) -> rebuilt_map.Fenced | str:
    """Who locked them out, and where the marker stands; or why that did not succeed.

    Raises `ConnectError` where nobody answers.
    """
    locked = place.lock_out()
    if locked is None:
        return "our marker did not become readable"
    if isinstance(locked, fenced_partition.Refused):
        return f"its writers cannot be locked out: {locked}"
    return rebuilt_map.Fenced(
        producer_id=locked.owner.id,
        epoch=locked.owner.epoch,
        marker=locked.marker,
        leader_epoch=locked.leader_epoch,
    )
