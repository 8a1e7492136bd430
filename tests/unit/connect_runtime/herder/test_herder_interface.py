from __future__ import annotations

import pytest

from connect_runtime.herder.herder_interface import ConnectRestError, HerderStage


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        (
            HerderStage(description="joining", started_ms=1_700_000_000_123),
            "The worker is currently joining, which began at 2023-11-14T22:13:20.123Z.",
        ),
        (
            HerderStage(description="joining", started_ms=0, completed_ms=1_005),
            "The last operation the worker completed was joining, which began at"
            " 1970-01-01T00:00:00Z and completed at 1970-01-01T00:00:01.005Z.",
        ),
    ],
)
def test_a_stage_reads_as_in_java(stage: HerderStage, text: str) -> None:
    assert str(stage) == text


def test_a_refusal_tells_its_status_and_message() -> None:
    refusal = ConnectRestError(404, "Unknown plugin x.")
    assert (refusal.status, str(refusal)) == (404, "Unknown plugin x.")
