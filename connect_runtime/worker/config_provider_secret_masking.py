"""Hides config provider values in error messages and stack traces.

Config providers often return secrets, and error messages of any kind may quote configuration
values. `ProvidedValues` resolves the configurations of one connector or task. In error messages, it
then replaces each value that a provider returned with its `${…}` reference.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping

from connect_runtime.base import config_placeholders
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.storage.cluster_config_state import RawConfig

HIDDEN_LENGTH_MIN = 4
"""Minimum length of config provider values that are hidden. Shorter values are not secrets and may
occur in messages by coincidence."""
HIDDEN_IN_WORDS_LENGTH_MIN = 8
"""Minimum length of config provider values that are hidden even within words. Shorter values are
hidden only as whole words: the value 3000 is not hidden in 30000."""
HIDDEN_VALUES_MAX = 20_000
"""Maximum number of config provider values and their parts to search for: enough for a file of
certificates."""
SEARCHED_TEXT_MAX = 1_000_000
"""Maximum length, in characters, of a text that is searched for config provider values."""
_COMPARISONS_MAX = 2_000_000
"""Maximum number of string comparisons when searching one text: about 0.5 s."""
_LITERALS_MAX = 100
"""Maximum number of distinct strings between the `${…}` references of one configuration value. If a
value exceeds it, `hide_provided_values` returns `UNSEARCHED_TEXT`."""
UNSEARCHED_TEXT = (
    "[not shown: the configuration has too many or too long values from config providers to hide"
    " them in this text]"
)

ResolveConfig = Callable[[RawConfig], Mapping[str, str | None]]
"""Resolves the `${…}` references of a configuration. Raises `ConnectError` if this fails."""
HideValues = Callable[[str], str]
"""Replaces config provider values in a text with their `${…}` references."""


class ProvidedValues:
    """Values that config providers returned for one connector or task. Thread-safe."""

    def __init__(self, resolve: ResolveConfig) -> None:
        self._resolve = resolve
        self._lock = threading.Lock()
        self._references: dict[str, str] = {}
        """The `${…}` reference for each config provider value, and for each part of a value; keys
        are in lower case."""
        self._by_start: dict[str, list[str]] = {}
        """The keys of `_references`, grouped by their first `HIDDEN_LENGTH_MIN` characters; the
        longest come first."""
        self._has_too_many = False

    def resolve_config(self, config: RawConfig) -> Mapping[str, str | None]:
        """Resolve the `${…}` references of a configuration. From then on, `hide_provided_values`
        replaces the values that the providers returned."""
        resolved = self._resolve(config)
        with self._lock:
            for key, given in config.items():
                value = resolved.get(key)
                if given is not None and value is not None and value != given:
                    self._add_provider_references(given, value)
            self._by_start = {}
            for each in sorted(self._references, key=len, reverse=True):
                self._by_start.setdefault(each[:HIDDEN_LENGTH_MIN], []).append(each)
        return resolved

    def _add_provider_references(self, given: str, resolved: str) -> None:
        if self._has_too_many:
            return
        found = _find_provided_value_parts(given, resolved)
        try:
            parts = list(itertools.islice(found, HIDDEN_VALUES_MAX + 1))
        except _TooManyValuePartsError:
            self._has_too_many = True
            return
        self._references.update(
            {_lowercase_text_preserving_length(value): reference for value, reference in parts}
        )
        self._has_too_many = max(len(parts), len(self._references)) > HIDDEN_VALUES_MAX

    def hide_provided_values(self, text: str) -> str:
        """Replace config provider values in the text with their `${…}` references, ignoring case.
        Return `UNSEARCHED_TEXT` if the search would take too long."""
        with self._lock:
            by_start, references = self._by_start, self._references
            has_too_many = self._has_too_many
        if has_too_many:
            return UNSEARCHED_TEXT
        if not references:
            return text
        if len(text) > SEARCHED_TEXT_MAX:
            return UNSEARCHED_TEXT
        lowered, pieces, end, comparisons = (
            _lowercase_text_preserving_length(text),
            list[str](),
            0,
            0,
        )
        for at in range(len(lowered)):
            for value in by_start.get(lowered[at : at + HIDDEN_LENGTH_MIN], ()):
                if at + len(value) <= end:
                    break
                comparisons += 1
                if comparisons > _COMPARISONS_MAX:
                    return UNSEARCHED_TEXT
                if _is_value_at_position(value, lowered, at):
                    pieces += [text[end:at], references[value]]
                    end = at + len(value)
                    break
        return "".join([*pieces, text[end:]])

    def hide_provided_values_in_error(self, error: ConnectError) -> ConnectError:
        """Return an error with the same message, in which config provider values are hidden.

        If the message contains no such values, the given error is returned. If the message or the
        message of a cause contains such values, the returned error has no cause. Raise the returned
        error with `raise error from error.__cause__`.
        """
        text = str(error)
        hidden = self.hide_provided_values(text)
        shown = error
        if hidden != text:
            shown = (RetriableError if isinstance(error, RetriableError) else ConnectError)(hidden)
        if hidden != text or any(
            self.hide_provided_values(each) != each for each in _list_error_cause_messages(error)
        ):
            shown.__cause__ = None
        return shown


def _list_error_cause_messages(error: BaseException) -> Iterator[str]:
    while True:
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is None:
            return
        yield str(cause)
        error = cause


def _lowercase_text_preserving_length(text: str) -> str:
    """Convert a text to lower case without changing its length. Characters whose lower case is
    longer, such as "İ", are kept."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := each.lower()) == 1 else each for each in text)


def _is_value_at_position(value: str, text: str, at: int) -> bool:
    """Return whether the value occurs in the text at this position. A short value must be a whole
    word there."""
    if not text.startswith(value, at):
        return False
    end = at + len(value)
    around = text[max(at - 1, 0) : at] + text[end : end + 1]
    return len(value) >= HIDDEN_IN_WORDS_LENGTH_MIN or not any(map(str.isalnum, around))


class _TooManyValuePartsError(Exception):
    """Raised if a configuration value has too many parts to hide."""


_SEPARATOR = re.compile(r"[,;:/\s]")
"""Matches the characters that separate items of lists, addresses, paths and options."""
_QUOTED_STRING = re.compile('"([^"]*)"')


def _find_provided_value_parts(given: str, resolved: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of a string to hide and the `${…}` reference that replaces the string.

    `given` is a configuration value with references, and `resolved` is the same value without
    references. The strings are the values that config providers returned, and parts of these
    values, such as list items.
    """
    found = list(config_placeholders.find_placeholders(given))
    if not found:
        return
    first, last = found[0].start, found[-1].end
    reference = given[first:last]
    provided = resolved[first : len(resolved) - (len(given) - last)]
    between = {given[one.end : two.start] for one, two in itertools.pairwise(found)}
    if len(between) > _LITERALS_MAX:
        raise _TooManyValuePartsError
    yield from _list_quoted_forms_of_value(resolved, given)
    yield from _list_quoted_forms_of_value(os.path.normpath(resolved), given)
    values = [provided]
    for literal in sorted(filter(None, between)):
        values = [part for value in values for part in value.split(literal)]
    items = [item for value in values for item in _SEPARATOR.split(value)]
    # A word inside a longer value, as "required" in a JAAS entry, is no secret unless it is quoted.
    items = [item for item in items if item in values or not item.isalpha()]
    strings = [string for value in values for string in _QUOTED_STRING.findall(value)]
    for part in dict.fromkeys([provided, os.path.normpath(provided), *values, *items, *strings]):
        yield from _list_quoted_forms_of_value(part, reference)
    # The word around the references, as "x${f:p}y" in a list.
    before = _SEPARATOR.split(given[:first])[-1]
    after = _SEPARATOR.split(given[last:])[0]
    pieces = _SEPARATOR.split(word := before + provided + after)
    for part in {word, pieces[0], pieces[-1]} - {before, after, *items}:
        yield from _list_quoted_forms_of_value(part, before + reference + after)


def _list_quoted_forms_of_value(value: str, reference: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of a form in which a message may quote the value (plain, as a Python string, as a
    JSON string), and the reference. Yield nothing for values shorter than `HIDDEN_LENGTH_MIN`."""
    if len(value) >= HIDDEN_LENGTH_MIN:
        for quoted in dict.fromkeys((value, repr(value)[1:-1], json.dumps(value)[1:-1])):
            yield quoted, reference
