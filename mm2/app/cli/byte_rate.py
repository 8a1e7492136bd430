"""The option type `BYTES/s`: `500kB`, `20MB`, `1GiB`, with or without `/s`."""

from __future__ import annotations

import click

from mm2.core.configs import kinds


class ByteRate(click.ParamType):  # type: ignore[type-arg]  # no generic before click 8.3
    """Bytes per second as a whole number."""

    name = "BYTES/s"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        kind = kinds.byte_rate()
        try:
            return kind.parse((str(value),))
        except ValueError:
            self.fail(f"{value!r} is not allowed; allowed: {kind.allowed}", param, ctx)
