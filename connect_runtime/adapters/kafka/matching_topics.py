"""Which topics a pattern means, looked up again and again.

The library would match patterns itself, in the language of the C library: `\\d` means nothing
there, and a configuration that Java takes would match nothing without a word.
"""

from __future__ import annotations

from collections.abc import Iterable

from connect_runtime.base import user_pattern

RETRY_S = 10.0
"""When to ask again where nobody answered."""
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""What a Java consumer leaves out, too: exclude.internal.topics."""


class MatchingTopics:
    """Of one consumer; `topics` are those that were found last, sorted."""

    def __init__(self, pattern: user_pattern.Pattern, *, refresh_s: float) -> None:
        """`refresh_s`: metadata.max.age.ms."""
        self._pattern = pattern
        self._refresh_s = refresh_s
        self._due_s = float("-inf")
        self.topics: tuple[str, ...] = ()

    def is_due(self, now_s: float) -> bool:
        """Are the topics there to be looked up?"""
        return now_s >= self._due_s

    def failed(self, now_s: float) -> None:
        self._due_s = now_s + min(RETRY_S, self._refresh_s)

    def found(self, names: Iterable[str], now_s: float) -> bool:
        """Take the names of all topics that there are; are others meant now than before?

        Raises `user_pattern.MatchLimitError`.
        """
        self._due_s = now_s + self._refresh_s
        meant = tuple(sorted(each for each in names if each not in _INTERNAL and self._means(each)))
        changed, self.topics = meant != self.topics, meant
        return changed

    def _means(self, name: str) -> bool:
        return self._pattern.fullmatch(name, key="topics.regex")
