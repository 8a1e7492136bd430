"""How many of what, in words: the one way in which messages count things."""

from __future__ import annotations

_VERBS = {"are": "is", "were": "was", "have": "has", "do": "does", "may": "may", "must": "must"}
"""Of many, and of one; all others have an `s` more for one."""
_HISSING = ("s", "x", "ch", "sh")


def counted(number: int, noun: str, verb: str = "") -> str:
    """`1 topic`, `1,234 topics`; with the verb of many, `wait`, also `1 topic waits`.

    `noun` is of one, and its last word changes: `more Spark slot`, `batch`, `entry`.
    """
    things = noun if number == 1 else _of_many(noun)
    return f"{number:,} {things} {agreeing(number, verb)}".rstrip()


def agreeing(number: int, verb: str) -> str:
    """The verb of many as it is of so many: `are` or `is`, `wait` or `waits`."""
    return _VERBS.get(verb, verb and verb + "s") if number == 1 else verb


def _of_many(noun: str) -> str:
    if noun.endswith(_HISSING):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"
