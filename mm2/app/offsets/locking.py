"""Every earlier writer of a mirror's partition locked out, for good."""

from __future__ import annotations

from mm2.core.offsets import rebuilt_map
from mm2.pipeline import fenced_partition


def lock(place: fenced_partition.FencedPartition) -> rebuilt_map.Fenced | str:
    """Who locked them out, and where the marker stands; or why that did not succeed.

    Raises `ConnectError` where nobody answers.
    """
    start = place.end()
    owner = place.new_owner()
    refused = owner if isinstance(owner, fenced_partition.Refused) else None
    if isinstance(owner, fenced_partition.Owner):
        refused = place.commit_empty(owner)
        if refused is None:
            return _marked(place, owner, start=start)
    return f"its writers cannot be locked out: {refused}"


def _marked(
    place: fenced_partition.FencedPartition, owner: fenced_partition.Owner, *, start: int
) -> rebuilt_map.Fenced | str:
    marker = place.marker_of(owner, start=start)
    if marker is None:
        return "our marker did not become readable"
    (header,) = [each for each in place.headers(marker) if each.base_offset == marker]
    return rebuilt_map.Fenced(
        producer_id=owner.id,
        epoch=owner.epoch,
        marker=marker,
        leader_epoch=header.leader_epoch,
    )
