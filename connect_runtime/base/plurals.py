"""Formats counts for messages: `1 topic waits`, `1,234 topics wait`."""

from __future__ import annotations

_IRREGULAR_VERBS = {
    "are": "is",
    "were": "was",
    "have": "has",
    "do": "does",
    "may": "may",
    "must": "must",
}
"""Of many, and of one; all others have an `s` more for one."""
_SIBILANT_ENDINGS = ("s", "x", "ch", "sh")


def format_count(number: int, noun: str, verb: str = "") -> str:
    """`1 topic`, `1,234 topics`; with the verb of many, `wait`, also `1 topic waits`.

    `noun` is of one, and its last word changes: `more Spark slot`, `batch`, `entry`.
    """
    things = noun if number == 1 else _pluralize(noun)
    return f"{number:,} {things} {conjugate(number, verb)}".rstrip()


def conjugate(number: int, verb: str) -> str:
    """The verb of many as it is of so many: `are` or `is`, `wait` or `waits`."""
    return _IRREGULAR_VERBS.get(verb, verb and verb + "s") if number == 1 else verb


def _pluralize(noun: str) -> str:
    if noun.endswith(_SIBILANT_ENDINGS):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"
