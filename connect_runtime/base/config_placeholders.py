r"""Finds and replaces `${provider:path:key}` and `${provider:key}` in configuration values.

Matches the same placeholders as the regular expression of Kafka's `ConfigTransformer`,
`\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}`, in one pass. Matching with the regular expression takes time
proportional to the fourth power of the value's length. Anyone who may submit a connector
configuration could therefore block the worker with a long value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """A placeholder in a configuration value; `start` and `end` are its character positions. `path`
    is None for `${provider:key}`."""

    start: int
    end: int
    provider: str
    path: str | None
    key: str


def find_placeholders(text: str) -> Iterator[Placeholder]:
    """Yield all placeholders in a configuration value (`text`) from left to right."""
    at = 0
    while (start := text.find("${", at)) >= 0 and (closing := text.find("}", start)) >= 0:
        at = closing + 1
        provider, colon, rest = text[start + 2 : closing].partition(":")
        if colon:
            path, second, key = rest.partition(":")
            yield Placeholder(
                start=start,
                end=at,
                provider=provider,
                path=path if second else None,
                key=key if second else path,
            )


def replace_placeholders(text: str, fill: Callable[[Placeholder], str]) -> str:
    """Replace each placeholder in a configuration value (`text`) with the result of `fill`.
    Placeholders in the results of `fill` are not replaced."""
    pieces, at = [], 0
    for each in find_placeholders(text):
        pieces += [text[at : each.start], fill(each)]
        at = each.end
    return "".join([*pieces, text[at:]])
