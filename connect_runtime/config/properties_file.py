"""Reads a worker's properties file, resolves its placeholders and collects its problems.

The file is read as Java reads it, then `${provider:path:key}` is replaced. `ErrorCollector`
keeps the first problem of each key and raises them all together.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.config import config_errors, config_providers, java_properties
from connect_runtime.config.config_errors import ConfigProblem, SettingsError
from connect_runtime.config.config_providers import ConfigProvider, ConfigTransformer, ProviderError
from connect_runtime.config.java_properties import JavaProperty
from connect_runtime.system import files

PropertyPairs = Mapping[str, JavaProperty]
MAX_FILE_BYTES = 4 * 1024 * 1024
"""Of one file: more than any configuration takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedProperties:
    """`parse_pairs` as they stand in the file, `values` filled in; of the keys in `filled` by a
    provider.

    Keys whose placeholders cannot be filled are in `unfilled`, and not in `values`.
    """

    file: str
    pairs: PropertyPairs
    values: Mapping[str, str] = field(repr=False)
    filled: frozenset[str]
    unfilled: frozenset[str]
    providers: Mapping[str, ConfigProvider]
    refused: tuple[ConfigProblem, ...]
    warned: tuple[ConfigProblem, ...]


def read_text(path: pathlib.Path) -> str:
    """Of a file of properties, in the encoding that Kafka reads them in. Raises `SettingsError`."""
    try:
        return files.read_bounded(path, most=MAX_FILE_BYTES).decode("iso-8859-1")
    except OSError as error:
        raise config_errors.build_unreadable_error(
            str(path), f"cannot be read: {error.strerror}"
        ) from None


def parse_pairs(content: str, *, file: str) -> tuple[JavaProperty, ...]:
    """All of them, equal keys included. Raises `SettingsError`."""
    try:
        return java_properties.parse_entries(content)
    except ValueError as error:
        line, _, words = str(error).removeprefix("line ").partition(": ")
        problem = ConfigProblem(line=int(line), key="", text=words)
        raise SettingsError(file, [problem]) from None


def parse_file(
    content: str, *, file: str, folder: pathlib.Path, environment: Mapping[str, str]
) -> ResolvedProperties:
    """Relative paths start at `folder`. Raises `SettingsError` for what is no properties file."""
    warned = [
        _build_non_ascii_warning(line) for line in java_properties.find_non_ascii_lines(content)
    ]
    found: dict[str, JavaProperty] = {}
    for pair in parse_pairs(content, file=file):
        earlier = found.pop(pair.key, None)
        if earlier is not None:
            words = f"has no effect: the key is here again in line {pair.line}"
            warned.append(_build_pair_problem(earlier, words))
        found[pair.key] = pair
    return _resolve_pairs(found, warned, file=file, folder=folder, environment=environment)


def resolve_properties(
    properties: Mapping[str, str],
    *,
    file: str,
    folder: pathlib.Path,
    environment: Mapping[str, str],
) -> ResolvedProperties:
    """As `parse_file`, of properties that were derived from `file`: they stand in no line of it."""
    found = {key: JavaProperty(key=key, value=value, line=0) for key, value in properties.items()}
    return _resolve_pairs(found, [], file=file, folder=folder, environment=environment)


def _resolve_pairs(
    found: Mapping[str, JavaProperty],
    warned: list[ConfigProblem],
    *,
    file: str,
    folder: pathlib.Path,
    environment: Mapping[str, str],
) -> ResolvedProperties:
    refused: list[ConfigProblem] = []
    declared = config_providers.read_declared_providers(
        found, refuse=refused.append, warn=warned.append
    )
    providers = ConfigTransformer(environment=environment, folder=folder, declared=declared)
    filling = _PlaceholderFiller(providers)
    for pair in found.values():
        filling.fill(pair)
        warned += [
            _build_pair_problem(
                pair, f"is taken as it stands: {config_providers.PROVIDERS_KEY} has no '{name}'"
            )
            for name in dict.fromkeys(config_providers.find_provider_names(pair.value))
            if name not in declared
        ]
    return ResolvedProperties(
        file=file,
        pairs=found,
        values=filling.values,
        filled=frozenset(filling.filled),
        unfilled=frozenset(each.key for each in filling.problems),
        providers=declared,
        refused=(*refused, *filling.problems),
        warned=tuple(warned),
    )


class _PlaceholderFiller:
    def __init__(self, providers: ConfigTransformer) -> None:
        self._providers = providers
        self.values: dict[str, str] = {}
        self.filled: set[str] = set()
        self.problems: list[ConfigProblem] = []

    def fill(self, pair: JavaProperty) -> None:
        try:
            resolved = self._providers.resolve(pair.value)
        except ProviderError as error:
            self.problems.append(_build_pair_problem(pair, f"cannot be filled in: {error}"))
            return
        self.values[pair.key] = resolved.text
        if resolved.secret:
            self.filled.add(pair.key)


def _build_pair_problem(pair: JavaProperty, words: str) -> ConfigProblem:
    return ConfigProblem(line=pair.line, key=pair.key, text=words)


def _build_non_ascii_warning(line: int) -> ConfigProblem:
    words = "holds characters beyond ASCII, read as ISO-8859-1 as in Java: write \\uXXXX"
    return ConfigProblem(line=line, key="", text=words)


_INVALID_VALUE_PATTERN = re.compile(
    r"Invalid value .* for configuration \S+?(?:: (?P<why>.*))?", re.DOTALL
)
_MIN_REDACTED_LENGTH = 4
"""Shorter texts stand in messages by chance."""


class ErrorCollector:
    """Of each key the first problem counts; of one that could not be filled in, that alone."""

    def __init__(self, given: ResolvedProperties) -> None:
        self._given = given
        self._problems: list[ConfigProblem] = list(given.refused)
        self._warnings: list[ConfigProblem] = list(given.warned)
        self.values = given.values

    def refuse(self, key: str, text: str, *, allowed: str | None = None) -> None:
        """A mistake; `key` "": of the file as a whole. The text may be one of Java's ConfigDef."""
        if key in self.wrong:
            return
        match = _INVALID_VALUE_PATTERN.fullmatch(text)
        if match is not None:
            text = match["why"] or "is not allowed"
        if text.startswith("Missing required configuration"):
            text = f"is missing: add {key}=… to the file"
        self._problems.append(
            ConfigProblem(
                line=self._line(key),
                key=key,
                text=self._discreet(key, text),
                given=self._shown(key),
                allowed=None if allowed is None else self._discreet(key, allowed),
            )
        )

    def warn(self, key: str, text: str, *, nearest: str | None = None) -> None:
        """What has no effect, or will not do what was meant."""
        self._warnings.append(
            ConfigProblem(
                line=self._line(key), key=key, text=self._discreet(key, text), nearest=nearest
            )
        )

    @property
    def wrong(self) -> set[str]:
        """The keys that have a problem."""
        return {each.key for each in self._problems if each.key} | self._given.unfilled

    def finish(self) -> tuple[str, ...]:
        """The warnings as lines, or else raises `SettingsError` with every problem."""
        if self._problems:
            raise SettingsError(self._given.file, self._problems)
        ordered = sorted(dict.fromkeys(self._warnings), key=lambda each: each.line)
        return tuple(each.describe(self._given.file) for each in ordered)

    def _line(self, key: str) -> int:
        pair = self._given.pairs.get(key)
        return 0 if pair is None else pair.line

    def _shown(self, key: str) -> str | None:
        pair = self._given.pairs.get(key)
        if pair is None:
            return None
        return config_errors.HIDDEN_VALUE if config_errors.is_sensitive(key) else pair.value

    def _discreet(self, key: str, text: str) -> str:
        """Without any value that is secret, or came through a provider."""
        for each in self._secrets():
            least = 1 if each == key else _MIN_REDACTED_LENGTH
            if any(len(part) >= least for part in _find_repeated_parts(self.values[each], text)):
                return "what it says is not allowed, and is not shown"
        return text

    def _secrets(self) -> Iterable[str]:
        return (
            each
            for each in self.values
            if each in self._given.filled or config_errors.is_sensitive(each)
        )


def _find_repeated_parts(value: str, text: str) -> list[str]:
    """The parts of a value that the text repeats."""
    parts = {value.strip(), *(each.strip() for each in value.split(","))} - {""}
    return [each for each in parts if each.lower() in text.lower()]
