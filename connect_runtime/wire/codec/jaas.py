"""The value of `sasl.jaas.config`, as Java's JaasConfig reads it.

    <login module class> required|requisite|sufficient|optional  key=value key="va\"lue" ... ;

Values may be quoted, with backslash escapes. Problems are told without repeating the value: it
holds a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base import errors

FLAGS = ("required", "requisite", "sufficient", "optional")

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<mark>[=;])
      | (?P<word>[^\s=;"']+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class JaasProblem(errors.FatalError):
    """What is wrong with a JAAS configuration; never its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """One entry. `options` holds secrets and is left out of the repr."""

    class_name: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def simple_name(self) -> str:
        return self.class_name.rpartition(".")[2]


def parse(text: str) -> LoginModule:
    """Read exactly one entry; raises JaasProblem."""
    tokens = _tokens(text)
    if not tokens or tokens[-1] != (";", True):
        raise JaasProblem("it must end with a semicolon")
    entry = tokens[:-1]
    if (";", True) in entry:
        raise JaasProblem("it must hold one login module, without a second semicolon")
    if len(entry) < 2 or entry[0][1] or entry[1][0].lower() not in FLAGS:
        raise JaasProblem(f"it must start with a login module class and one of {', '.join(FLAGS)}")
    return LoginModule(class_name=entry[0][0], options=_options(entry[2:]))


def _options(tokens: list[tuple[str, bool]]) -> dict[str, str]:
    options: dict[str, str] = {}
    if len(tokens) % 3:
        raise JaasProblem('options must have the form key=value or key="value"')
    for index in range(0, len(tokens), 3):
        (key, key_is_mark), mark, (value, value_is_mark) = tokens[index : index + 3]
        if key_is_mark or mark != ("=", True) or value_is_mark:
            raise JaasProblem('options must have the form key=value or key="value"')
        options[key] = value
    return options


def _tokens(text: str) -> list[tuple[str, bool]]:
    """(token, whether it is a mark: '=' or ';'), quotes and escapes resolved."""
    tokens: list[tuple[str, bool]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position, end)
        if match is None:
            raise JaasProblem("a quote is not closed")
        if match["quoted"] is not None:
            tokens.append((_unescape(match["quoted"][1:-1]), False))
        else:
            tokens.append((match["mark"] or match["word"], match["mark"] is not None))
        position = match.end()
    return tokens


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text, flags=re.DOTALL)
