"""Formats counts for messages, for example `1 topic waits` or `1,234 topics wait`."""

from __future__ import annotations

_IRREGULAR_VERBS = {
    "are": "is",
    "were": "was",
    "have": "has",
    "do": "does",
    "may": "may",
    "must": "must",
}
"""Singular verb forms by plural form. All other verbs add an `s` in the singular."""
_SIBILANT_ENDINGS = ("s", "x", "ch", "sh")


def format_count(number: int, noun: str, verb: str = "") -> str:
    """Format a count with its noun and verb, for example `1 topic waits` or `1,234 topics wait`.

    `noun` is singular; its last word is pluralized. `verb` is plural (`wait`, `are`).
    """
    things = noun if number == 1 else _pluralize_noun(noun)
    return f"{number:,} {things} {conjugate_verb(number, verb)}".rstrip()


def conjugate_verb(number: int, verb: str) -> str:
    """Return the form of a plural verb that agrees with `number`: `is` or `are`, `waits` or
    `wait`."""
    return _IRREGULAR_VERBS.get(verb, verb and verb + "s") if number == 1 else verb


def _pluralize_noun(noun: str) -> str:
    if noun.endswith(_SIBILANT_ENDINGS):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"
