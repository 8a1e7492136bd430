"""What was promised of a figure, and what came of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tests.bench import figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """`actual` is None where it could not be measured; `unit` stands behind it."""

    text: str
    actual: float | None
    met: bool
    unit: str = "x"

    @property
    def line(self) -> str:
        if self.actual is None:
            return f"- not measured: {self.text}"
        told = f"{figures.number(self.actual)}{self.unit}"
        return f"- {'met' if self.met else 'NOT met'}: {self.text}: {told}"
