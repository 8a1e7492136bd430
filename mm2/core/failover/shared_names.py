"""Where a group goes on in a topic that both clusters write under one name.

On either cluster it holds what was born there and copies of what was born on the other. Of what was
born on `from` the flow's map says where it stands on `to`; of what was born on `to` the opposite
flow's map says how much of it had reached `from` before the group's position. The group goes on at
the first record that is not sure to have been read, of either kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mm2.core.failover import whose
from mm2.core.offsets import translation


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """What is known of records that were born on `to` and had not reached `from`: `stretches` of
    them, all that stand at `through` and behind, up to `end`. None: nobody counted them."""

    through: int
    end: int
    stretches: Sequence[whose.Stretch] | None

    @property
    def first(self) -> int:
        """Before it all that was born on `to` had reached `from`."""
        if self.stretches is None:
            return self.through
        return min((each.first for each in self.stretches), default=self.end)


def place(
    forward: translation.Translation,
    back: translation.Translation,
    local: Local,
    *,
    read_all_copied: bool,
    past_all_back: bool,
) -> translation.Translation:
    """`forward`: by the flow's map, `back`: by the opposite one's.

    `read_all_copied`: the group has read all that the flow ever copied, and nobody copies more, so
    that `forward` holds nobody back. What it read of copies behind `forward` stands among what was
    born there, nobody knows where, and counts on top. `past_all_back`: it stands behind all that
    the opposite flow has brought to `from`, so that only `local` is unread of what was born on
    `to`.
    """
    if isinstance(forward, translation.Untranslated):
        return forward
    if isinstance(back, translation.Untranslated) and not past_all_back:
        return back
    if past_all_back or isinstance(back, translation.Untranslated):
        lowest, highest = local.first, local.through
    else:
        lowest, highest = back.downstream, _highest(back)
    highest = max(lowest, highest, forward.downstream)
    if not read_all_copied:
        lowest = min(lowest, forward.downstream)
    unread = whose.within(local.stretches or (), lowest, highest)
    again_max = highest - lowest - unread + _again(forward)
    if again_max:
        return translation.Earlier(downstream=lowest, again_max=again_max)
    return translation.Exact(downstream=lowest)


def _highest(found: translation.Exact | translation.Earlier) -> int:
    return found.downstream + _again(found)


def _again(found: translation.Exact | translation.Earlier) -> int:
    return found.again_max if isinstance(found, translation.Earlier) else 0
