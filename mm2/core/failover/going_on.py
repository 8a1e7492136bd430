"""Has anything happened to a flow while a move lay still, when some of its groups were moved?

What is moved cannot be taken back, so what is left of such a move holds only while nobody copies,
and, of a planned one, nobody writes on the cluster that is left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from connect_runtime.base import ids
from mm2.core.failover import details, fences, journal, seen, steps
from mm2.core.offsets import offset_map


def last_fenced(found: journal.Journal) -> list[fences.Fenced]:
    """As the last step that fenced has noted them."""
    again = found.details.get(steps.Step.LOOK_AGAIN, {}).get("fenced_again", [])
    return details.fenced({"partitions": again} if again else found.details[steps.Step.FENCE])


def why_changed(
    found: journal.Journal,
    *,
    known: offset_map.OffsetMap,
    to_fence: Collection[ids.TopicPartition],
    mirrored: Collection[seen.Mirrored],
) -> str:
    """ "" where it is as it was. `mirrored` as seen now, of a planned move."""
    fenced = last_fenced(found)
    begun = sorted(set(to_fence) - {each.partition for each in fenced})
    taken = [each.partition for each in fenced if fences.taken_since(known, each)]
    for partition in (*begun, *taken):
        return f"somebody has copied {partition}"
    agreed: Mapping[ids.TopicPartition, int] = {}
    if steps.Step.AGREE in found.details:
        agreed = details.partitions(found.details[steps.Step.AGREE]["ends"])
    for each in mirrored:
        end = agreed.get(each.partition)
        if end is not None and (each.here is None or each.here.end != end):
            now = "cannot be asked for" if each.here is None else f"is {each.here.end}"
            return f"the end of {each.partition} was {end} when both agreed, and {now}"
    return ""
