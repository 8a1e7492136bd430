"""Makes text from elsewhere safe for terminals and logs.

Group ids, client and member ids, error messages of brokers, traces and header values are chosen by
others. Written as they are, `ESC ] 52` sets the clipboard of whoever looks, a carriage return or a
line feed forges lines, and marks of direction turn a name around.
"""

from __future__ import annotations


def escape(text: str) -> str:
    r"""One line: each character that is not printable as `\n`, `\x1b`, `\u202e` and so on.

    Not printable are control and format characters, line separators, lone surrogates and all blanks
    but the space.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def escape_lines(text: str, *, indent: str = "") -> str:
    """As `escape`, line by line. Lines after the first begin with `indent`, so that none of them
    can be taken for a line of its own. A tab is four blanks."""
    return f"\n{indent}".join(escape(each.expandtabs(4)) for each in text.split("\n"))
