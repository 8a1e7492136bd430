"""Escapes untrusted text before it is printed to terminals and logs.

Group, client and member ids, broker error messages, stack traces and header values may be
controlled by an attacker. If they are printed unchanged, `ESC ] 52` sets the reader's clipboard, a
carriage return or line feed forges lines, bidirectional marks reverse names, invisible characters
make two names look alike, and many combining marks cover other lines.
"""

from __future__ import annotations

import re
import unicodedata

_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Unicode's Default_Ignorable_Code_Point characters that `str.isprintable` accepts, and the
braille blank."""
_MARKS_MAX = 3


REMEDY_LABEL = "Remedy:"
"""Label before the command that mm2 recommends at the end of an error message."""


def replace_remedy_labels(text: str) -> str:
    """Replace `REMEDY_LABEL` in a broker's error message, so that mm2 does not present a command
    from the broker as its own recommendation."""
    return text.replace(REMEDY_LABEL, "Remedy -")


def escape_unprintable(text: str) -> str:
    r"""Escape each unprintable character, e.g. as `\n`, `\x1b`, `\u202e`. The result is one line.

    Unprintable characters are control and format characters, line separators, lone surrogates,
    whitespace other than the space character, invisible characters, and every combining mark after
    the third consecutive one.
    """
    if text.isascii() and text.isprintable():
        return text
    shown, marks = [], 0
    for each in text:
        marks = marks + 1 if unicodedata.category(each) in ("Mn", "Me") else 0
        plain = each.isprintable() and marks <= _MARKS_MAX and not _INVISIBLE.match(each)
        shown.append(each if plain else each.encode("unicode_escape").decode())
    return "".join(shown)


def escape_unprintable_except_newlines(text: str, *, indent: str = "") -> str:
    """Escape text as `escape_unprintable` does, but keep line breaks.

    Lines after the first start with `indent`, so that they cannot be mistaken for separate entries.
    Tabs become spaces.
    """
    return f"\n{indent}".join(escape_unprintable(each.expandtabs(4)) for each in text.split("\n"))
