"""Java's `.properties` files, read as `java.util.Properties.load(Reader)` reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANKS = " \t\f"
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(u)|(.)|$)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    """The last of several equal keys wins, as in Java.

    Raises `ValueError` with the line's number (never its content) for a malformed `\\uXXXX`.
    """
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            found[_unescape(key)] = _unescape(value)
        except ValueError:
            raise ValueError(f"line {number}: \\u needs four hexadecimal digits") from None
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with continuations joined, without comments and blank ones; numbers count from 1."""
    pending: str | None = None
    started = 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(_BLANKS)
        if pending is None:
            if not line or line[0] in "#!":
                continue
            pending, started = "", number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield started, pending + line
        pending = None
    if pending:
        yield started, pending


def _split(line: str) -> tuple[str, str]:
    at = 0
    while at < len(line) and line[at] not in f"=:{_BLANKS}":
        at += 2 if line[at] == "\\" else 1
    key, rest = line[:at], line[at:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return key, rest


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        code, broken, char = match.groups()
        if broken:
            raise ValueError(match.start())
        if code:
            return chr(int(code, 16))
        return _NAMED.get(char, char) if char else ""

    return _ESCAPE.sub(replace, text)
