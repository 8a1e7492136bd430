"""The option type `BYTES/s`: `500kB`, `20MB`, `1GiB`, with or without `/s`."""

from __future__ import annotations

import re

import click

_FACTORS = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}
_TEXT = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) *([A-Za-z]*)(?:/s)?")
LEAST = 1_000
"""Less than this could not move a batch in any time that somebody waits."""


class ByteRate(click.ParamType):  # type: ignore[type-arg]  # no generic before click 8.3
    """Bytes per second as a whole number."""

    name = "BYTES/s"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        found = _TEXT.fullmatch(str(value).strip())
        factor = _FACTORS.get(found[2].lower()) if found else None
        if found is None or factor is None:
            self.fail(f"{value!r} is no rate; allowed: 500kB, 20MB, 1GiB and the like", param, ctx)
        rate = int(float(found[1]) * factor)
        if rate < LEAST:
            self.fail(f"{value!r} is too little; allowed: 1kB and more", param, ctx)
        return rate
