"""Hides config provider values in error messages and stack traces.

Errors quote configuration values, even in messages about other keys and in plugin exceptions.
`ProvidedValues` resolves the configurations of one connector or task, and replaces each value that
a provider returned with its `${…}` reference.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping

from connect_runtime.base import config_placeholders
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.storage.cluster_config_state import RawConfig

HIDDEN_LENGTH_MIN = 4
"""Values shorter than this are not hidden, because they occur in any text by chance and are not
secrets."""
HIDDEN_IN_WORDS_LENGTH_MIN = 8
"""Values shorter than this are hidden only as whole words: 3000 is not hidden in 30000."""

ResolveConfig = Callable[[RawConfig], Mapping[str, str | None]]
"""Resolves `${…}` references. Raises `ConnectError` if this fails."""
HideValues = Callable[[str], str]
"""Replaces provided values in a text with their references."""


class ProvidedValues:
    """Config provider values of one connector or task. Thread-safe."""

    def __init__(self, resolve: ResolveConfig) -> None:
        self._resolve = resolve
        self._lock = threading.Lock()
        self._references: dict[str, str] = {}
        """Reference by value, for values and their parts."""

    def resolve(self, config: RawConfig) -> Mapping[str, str | None]:
        """Resolve a configuration. From now on, `hide` replaces the values of its references."""
        resolved = self._resolve(config)
        with self._lock:
            for key, given in config.items():
                value = resolved.get(key)
                if given is not None and value is not None and value != given:
                    self._references.update(_find_provided_parts(given, value))
        return resolved

    def hide(self, text: str) -> str:
        """Replace provided values in the text with their references, regardless of upper or lower
        case."""
        with self._lock:
            known = sorted(self._references.items(), key=lambda each: -len(each[0]))
        lowered = text.lower()
        used: list[tuple[str, str]] = []
        for value, reference in known:
            if value.lower() in lowered:  # a quick answer for most
                mark = f"\0{len(used)}\0"  # the next values must not be found in references
                text = _replace_value(text, value, mark)
                used.append((mark, reference))
        for mark, reference in used:
            text = text.replace(mark, reference)
        return text

    def hide_in_error(self, error: ConnectError) -> ConnectError:
        """Return the error, or a copy of the same type if its text contains provided values.

        The cause is removed only if the text or a cause contains them: raise the result from its
        own cause.
        """
        text = str(error)
        hidden = self.hide(text)
        shown = error
        if hidden != text:
            shown = (RetriableError if isinstance(error, RetriableError) else ConnectError)(hidden)
        if hidden != text or any(self.hide(each) != each for each in _list_cause_texts(error)):
            shown.__cause__ = None
        return shown


def _list_cause_texts(error: BaseException) -> Iterator[str]:
    while True:
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is None:
            return
        yield str(cause)
        error = cause


def _find_provided_parts(given: str, resolved: str) -> Iterator[tuple[str, str]]:
    """Yield the values of the references in `given`, whole and in parts, each with its
    reference."""
    found = list(config_placeholders.find_placeholders(given))
    if not found:
        return
    first, last = found[0].start, found[-1].end
    reference = given[first:last]
    provided = resolved[first : len(resolved) - (len(given) - last)]
    between = {given[one.end : two.start] for one, two in itertools.pairwise(found)}
    yield from _quote_forms(resolved, given)
    values = [provided]
    for literal in sorted(filter(None, between)):
        values = [part for value in values for part in value.split(literal)]
    items = [item for value in values for item in value.replace(",", " ").split()]
    # A word inside a longer value, as "required" in a JAAS entry, is no secret unless it is quoted.
    items = [item for item in items if item in values or not item.isalpha()]
    strings = [string for value in values for string in _QUOTED_STRING.findall(value)]
    for part in dict.fromkeys([provided, *values, *items, *strings]):
        yield from _quote_forms(part, reference)


_QUOTED_STRING = re.compile('"([^"]*)"')


def _quote_forms(value: str, reference: str) -> Iterator[tuple[str, str]]:
    """Yield the forms of the value in plain text, Python literals and JSON, each with its
    reference."""
    if len(value) >= HIDDEN_LENGTH_MIN:
        for quoted in (value, repr(value)[1:-1], json.dumps(value)[1:-1]):
            yield quoted, reference


def _replace_value(text: str, value: str, by: str) -> str:
    """Replace a value, regardless of upper or lower case. Replace a short value only where it is a
    whole word."""
    lowered, wanted = text.lower(), value.lower()
    if len(lowered) != len(text) or len(wanted) != len(value):  # positions differ, as with "İ"
        return text.replace(value, by)
    pieces, copied, at = [], 0, 0
    while (found := lowered.find(wanted, at)) >= 0:
        end = at = found + len(value)
        around = text[max(found - 1, 0) : found] + text[end : end + 1]
        if len(value) < HIDDEN_IN_WORDS_LENGTH_MIN and any(map(str.isalnum, around)):
            continue
        pieces += [text[copied:found], by]
        copied = end
    return "".join([*pieces, text[copied:]])
