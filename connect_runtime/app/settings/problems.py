"""What is wrong with a configuration: collected first, told all at once."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from connect_runtime.base import amounts, errors

HIDDEN = "[hidden]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake. `key` is its path in the file, such as `flows[0].tasks.max`.

    Key "" and line 0 stand for the file as a whole. `given` is what the file says there (never a
    secret's value), `allowed` what it may say, `nearest` the known key that an unknown one
    resembles most.
    """

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


class SettingsError(errors.FatalError):
    """A configuration that cannot be used; `problems` are in the order of the file.

    `consequence` is what became of the command, such as "nothing was started"; "" says nothing.
    """

    consequence: str = ""

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file = file
        once = dict.fromkeys(problems)  # what defaults say is read for every flow
        self.problems = tuple(sorted(once, key=lambda problem: problem.line))
        super().__init__(file, self.problems)

    def __str__(self) -> str:
        count = amounts.counted(len(self.problems), "problem")
        ending = f": {self.consequence}" if self.consequence else ""
        lines = [problem.describe(self.file) for problem in self.problems]
        return "\n".join([*lines, f"{count} in {self.file}{ending}"])


@contextlib.contextmanager
def consequence(text: str) -> Iterator[None]:
    """Say so behind the problems of a `SettingsError` that is raised inside."""
    try:
        yield
    except SettingsError as error:
        error.consequence = text
        raise


def unreadable(file: str, text: str, *, line: int = 0) -> SettingsError:
    """One problem with the file as a whole."""
    return SettingsError(file, [Problem(line=line, key="", text=text)])


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a mistyped one most likely meant; None when nothing is close."""
    candidates = sorted(set(known))
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def _quote(text: str) -> str:
    """As in the file (a backslash once), unless it holds characters that a terminal obeys."""
    if text == HIDDEN:
        return text
    return f"'{text}'" if text.isprintable() else repr(text)
