"""A worker's properties file: read as Java reads it, with `${provider:path:key}` filled in."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.adapters.config import properties_source, value_providers
from connect_runtime.app.settings import declared_providers, problems
from connect_runtime.system import file_bytes

Pairs = Mapping[str, properties_source.Property]
BYTES_MAX = 4 * 1024 * 1024
"""Of one file: more than any configuration takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """`pairs` as they stand in the file, `values` filled in; of the keys in `filled` by a provider.

    Keys whose placeholders cannot be filled are in `unfilled`, and not in `values`.
    """

    file: str
    pairs: Pairs
    values: Mapping[str, str] = field(repr=False)
    filled: frozenset[str]
    unfilled: frozenset[str]
    providers: Mapping[str, value_providers.Provider]
    refused: tuple[problems.Problem, ...]
    warned: tuple[problems.Problem, ...]


def text(path: pathlib.Path) -> str:
    """Of a file of properties, in the encoding that Kafka reads them in. Raises `SettingsError`."""
    try:
        return file_bytes.read(path, most=BYTES_MAX).decode("iso-8859-1")
    except OSError as error:
        raise problems.unreadable(str(path), f"cannot be read: {error.strerror}") from None


def pairs(content: str, *, file: str) -> tuple[properties_source.Property, ...]:
    """All of them, equal keys included. Raises `SettingsError`."""
    try:
        return properties_source.entries(content)
    except ValueError as error:
        line, _, words = str(error).removeprefix("line ").partition(": ")
        problem = problems.Problem(line=int(line), key="", text=words)
        raise problems.SettingsError(file, [problem]) from None


def parse(
    content: str, *, file: str, folder: pathlib.Path, environment: Mapping[str, str]
) -> Given:
    """Relative paths start at `folder`. Raises `SettingsError` for what is no properties file."""
    warned = [_not_ascii(line) for line in properties_source.beyond_ascii(content)]
    found: dict[str, properties_source.Property] = {}
    for pair in pairs(content, file=file):
        earlier = found.pop(pair.key, None)
        if earlier is not None:
            words = f"has no effect: the key is here again in line {pair.line}"
            warned.append(_problem(earlier, words))
        found[pair.key] = pair
    return _given(found, warned, file=file, folder=folder, environment=environment)


def given(
    properties: Mapping[str, str],
    *,
    file: str,
    folder: pathlib.Path,
    environment: Mapping[str, str],
) -> Given:
    """As `parse`, of properties that were derived from `file`: they stand in no line of it."""
    found = {
        key: properties_source.Property(key=key, value=value, line=0)
        for key, value in properties.items()
    }
    return _given(found, [], file=file, folder=folder, environment=environment)


def _given(
    found: Mapping[str, properties_source.Property],
    warned: list[problems.Problem],
    *,
    file: str,
    folder: pathlib.Path,
    environment: Mapping[str, str],
) -> Given:
    refused: list[problems.Problem] = []
    declared = declared_providers.read(found, refuse=refused.append, warn=warned.append)
    providers = value_providers.ValueProviders(
        environment=environment, folder=folder, declared=declared
    )
    filling = _Filling(providers)
    for pair in found.values():
        filling.fill(pair)
        warned += [
            _problem(pair, f"is taken as it stands: {declared_providers.KEY} has no '{name}'")
            for name in dict.fromkeys(value_providers.named(pair.value))
            if name not in declared
        ]
    return Given(
        file=file,
        pairs=found,
        values=filling.values,
        filled=frozenset(filling.filled),
        unfilled=frozenset(each.key for each in filling.problems),
        providers=declared,
        refused=(*refused, *filling.problems),
        warned=tuple(warned),
    )


class _Filling:
    def __init__(self, providers: value_providers.ValueProviders) -> None:
        self._providers = providers
        self.values: dict[str, str] = {}
        self.filled: set[str] = set()
        self.problems: list[problems.Problem] = []

    def fill(self, pair: properties_source.Property) -> None:
        try:
            resolved = self._providers.resolve(pair.value)
        except value_providers.ProviderError as error:
            self.problems.append(_problem(pair, f"cannot be filled in: {error}"))
            return
        self.values[pair.key] = resolved.text
        if resolved.secret:
            self.filled.add(pair.key)


def _problem(pair: properties_source.Property, words: str) -> problems.Problem:
    return problems.Problem(line=pair.line, key=pair.key, text=words)


def _not_ascii(line: int) -> problems.Problem:
    words = "holds characters beyond ASCII, read as ISO-8859-1 as in Java: write \\uXXXX"
    return problems.Problem(line=line, key="", text=words)
