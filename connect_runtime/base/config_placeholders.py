r"""Finds and replaces `${provider:path:key}` and `${provider:key}` in configuration values.

Matches the same placeholders as the regular expression of Kafka's `ConfigTransformer`,
`\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}`, in one pass. That expression takes time proportional to the
fourth power of the text's length, and anyone who may submit a connector configuration controls the
text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """A placeholder at `text[start:end]`. `path` is None for `${provider:key}`."""

    start: int
    end: int
    provider: str
    path: str | None
    key: str


def find_placeholders(text: str) -> Iterator[Placeholder]:
    """Yield all placeholders in a text from left to right."""
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
    """Replace each placeholder in a text with the result of `fill`. Placeholders in results are
    not replaced."""
    pieces, at = [], 0
    for each in find_placeholders(text):
        pieces += [text[at : each.start], fill(each)]
        at = each.end
    return "".join([*pieces, text[at:]])
