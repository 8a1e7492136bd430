"""Configuration problems, and `SettingsError`, which reports all of them at once.

A problem names its line, its key and the allowed values.

Values of sensitive keys (`ConfigDef.Type.PASSWORD`) are never part of a message.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from connect_runtime.base import plurals
from connect_runtime.base.errors import FatalError

HIDDEN_VALUE = "[hidden]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigProblem:
    """One mistake. `key` is its path in the file, such as `flows[0].tasks.max`.

    Key "" and line 0 stand for the file as a whole. `given` is what the file says there (never a
    secret's value), `allowed` what it may say, `find_nearest_name` the known key that an unknown
    one resembles most."""

    line: int
    key: str
    text: str
    given: str | None = None
    allowed: str | None = None
    nearest: str | None = None

    def describe(self, file: str) -> str:
        """One line, `file:line: key: what is wrong`, as editors and people find it."""
        place = f"{file}:{self.line}" if self.line else file
        key = self.key if self.key.isprintable() else repr(self.key)
        words = f"{place}: {key + ': ' if key else ''}{self.text}"
        if self.given is not None:
            words += f"; given: {_quote(self.given)}"
        if self.allowed is not None:
            words += f"; allowed: {self.allowed}"
        if self.nearest is not None:
            words += f"; did you mean {_quote(self.nearest)}?"
        return words


class SettingsError(FatalError):
    """A configuration that cannot be used; `problems` are in the order of the file.

    `add_consequence` is what became of the command, such as "nothing was started"; "" says nothing.
    """

    consequence: str = ""

    def __init__(self, file: str, problems: Iterable[ConfigProblem]) -> None:
        self.file = file
        once = dict.fromkeys(problems)  # what defaults say is read for every flow
        self.problems = tuple(sorted(once, key=lambda problem: problem.line))
        super().__init__(file, self.problems)

    def __str__(self) -> str:
        count = plurals.format_count(len(self.problems), "problem")
        ending = f": {self.consequence}" if self.consequence else ""
        lines = [problem.describe(self.file) for problem in self.problems]
        return "\n".join([*lines, f"{count} in {self.file}{ending}"])


@contextlib.contextmanager
def add_consequence(text: str) -> Iterator[None]:
    """Say so behind the problems of a `SettingsError` that is raised inside."""
    try:
        yield
    except SettingsError as error:
        error.consequence = text
        raise


def build_unreadable_error(file: str, text: str, *, line: int = 0) -> SettingsError:
    """One problem with the file as a whole."""
    return SettingsError(file, [ConfigProblem(line=line, key="", text=text)])


def find_nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that a mistyped one most likely meant; None when nothing is close."""
    candidates = sorted(set(known))
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def _quote(text: str) -> str:
    """As in the file (a backslash once), unless it holds characters that a terminal obeys."""
    if text == HIDDEN_VALUE:
        return text
    return f"'{text}'" if text.isprintable() else repr(text)


_SENSITIVE_SUFFIXES = (
    "password",
    "secret",
    "passphrase",
    "token",
    "sasl.jaas.config",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.truststore.certificates",
)


def is_sensitive(name: str) -> bool:
    """By the name, whatever stands before it: `producer.override.sasl.jaas.config`."""
    return name.endswith(_SENSITIVE_SUFFIXES)
