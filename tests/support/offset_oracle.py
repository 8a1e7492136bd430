"""The judge of translated offsets: from the two logs alone, by who the records are.

Nothing is taken from the offset map. A record's place on the target is where a record of the same
identity stands there; whatever is asked, the answer lies between two such places.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from mm2.offsets.offset_translation import (
    EarlierOffset,
    ExactOffset,
    TranslatedOffset,
    UntranslatedReason,
)

Answer = Callable[[int], TranslatedOffset]
_SHOWN = 5


@dataclass(slots=True)
class Verdict:
    """`outcomes` counts answers by kind, `wrong` wrong ones by what is wrong with them; of each
    kind the first few are told in `told`. `again` is the most records that any answer reads again.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)
    again: int = 0

    def object_to(self, what: str, offset: int, answer: TranslatedOffset, why: str) -> None:
        self.wrong[what] += 1
        if self.wrong[what] <= _SHOWN:
            self.told.append(f"{what}: {offset} became {answer}; {why}")

    def add(self, other: Verdict) -> None:
        self.outcomes += other.outcomes
        self.wrong += other.wrong
        self.told += other.told
        self.again = max(self.again, other.again)

    def __str__(self) -> str:
        return "\n".join([f"{dict(self.outcomes)}, wrong: {dict(self.wrong)}", *self.told])


class _Side:
    """For every offset of one side: the other side's highest place of what is before it, and the
    lowest of what is from there on. `Oracle` says which place counts where there are two.
    """

    def __init__(self, before: Mapping[int, int], behind: Mapping[int, int]) -> None:
        self._before = sorted(before)
        self._behind = sorted(behind)
        self._highest: list[int] = []
        for offset in self._before:
            top = self._highest[-1] if self._highest else -1
            self._highest.append(max(top, before[offset]))
        self._lowest: list[int] = []
        for offset in reversed(self._behind):
            low = self._lowest[-1] if self._lowest else behind[offset]
            self._lowest.append(min(low, behind[offset]))
        self._lowest.reverse()
        self._pairs = before

    def highest_before(self, offset: int) -> int:
        index = bisect_left(self._before, offset)
        return self._highest[index - 1] if index else -1

    def lowest_from(self, offset: int) -> int | None:
        index = bisect_left(self._behind, offset)
        return self._lowest[index] if index < len(self._behind) else None

    def again(self, offset: int, place: int) -> int:
        """How many records that are before `offset` stand at `place` or behind."""
        if self.highest_before(offset) < place:
            return 0
        index = bisect_left(self._before, offset)
        return sum(self._pairs[each] >= place for each in self._before[:index])


class Oracle:
    """One partition: `source` and `target` say who stands at which offset.

    A record copied twice (incidents say so) counts where it stands last for who comes from the
    source: what stands before was left behind when a new era began. Who goes back has read it as
    soon as he is behind its first copy, and may meet the last one again here as there.
    """

    def __init__(
        self,
        source: Mapping[int, Hashable],
        target: Mapping[int, Hashable],
        *,
        source_end: int,
        target_end: int,
        gone: Collection[int] = (),
    ) -> None:
        """The ends are those of the logs, behind whatever readers do not see. Of what is `gone`, by
        source offset, nobody minds whether it is read."""
        origin = {who: offset for offset, who in source.items()}
        assert len(origin) == len(source), "two records of the source are the same"
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for place in sorted(target):
            offset = origin.get(target[place])
            if offset is not None and offset not in gone:
                first.setdefault(offset, place)
                last[offset] = place
        self.copied = len(last)
        self.twice = sum(first[each] != last[each] for each in last)
        self._there = _Side(last, last)
        self._back = _Side(
            {place: offset for offset, place in last.items()},
            {place: offset for offset, place in first.items()},
        )
        others = [place for place, who in target.items() if who not in origin]
        end = max(last.values(), default=-1)
        self._target_end = min((each for each in others if each > end), default=target_end)
        self._source_end = source_end

    def judge(self, translate: Answer, offsets: Iterable[int]) -> Verdict:
        """Source offsets: where on the target goes on who stands there."""
        return _judged(translate, offsets, side=self._there, end=self._target_end)

    def judge_back(self, translate_back: Answer, offsets: Iterable[int]) -> Verdict:
        """Target offsets: where on the source goes on who stands there."""
        return _judged(translate_back, offsets, side=self._back, end=self._source_end)


def _judged(answers: Answer, offsets: Iterable[int], *, side: _Side, end: int) -> Verdict:
    found = Verdict()
    for offset in offsets:
        answer = answers(offset)
        found.outcomes[_kind(answer)] += 1
        if isinstance(answer, UntranslatedReason):
            continue
        place = answer.downstream
        low, high = side.highest_before(offset) + 1, side.lowest_from(offset)
        high = end if high is None else high
        right = f"right is what lies in [{low}, {high}]"
        again = side.again(offset, place)
        found.again = max(found.again, again)
        if place > high:
            found.object_to("ahead", offset, answer, right)
        elif isinstance(answer, ExactOffset) and again:
            found.object_to("read again", offset, answer, right)
        elif isinstance(answer, EarlierOffset) and again > answer.reread_max:
            found.object_to("bound too small", offset, answer, f"{again} are read again; {right}")
    return found


def _kind(answer: TranslatedOffset) -> str:
    return answer.value if isinstance(answer, UntranslatedReason) else type(answer).__name__
