from __future__ import annotations

import pytest

from connect_runtime.herder.herder_interface import ConnectRestError, HerderStage
from connect_runtime.herder.herder_requests import CheckHealth
from connect_runtime.rest.request_forwarding import RestDeadlines
from tests.fakes.rest_herder import FakeHerder
from tests.support.rest import Rest

IMPATIENT = RestDeadlines(request_s=0.05, health_s=0.05)
STAGE = HerderStage(description="reading", started_ms=0)


def test_the_root_says_who_this_is() -> None:
    answer = Rest(FakeHerder())("GET", "/")
    assert answer.text == (
        '{"version":"4.3.1","commit":"unknown","kafka_cluster_id":"I4ZmrWqfT2e-upky_4fdPA"}'
    )


def test_a_herder_that_comes_round_is_healthy() -> None:
    herder = FakeHerder()
    answer = Rest(herder)("GET", "/health")
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "status": "healthy",
            "message": "Worker has completed startup and is ready to handle requests.",
        },
    )
    assert herder.submitted == [CheckHealth()]


@pytest.mark.parametrize(
    ("ready", "status", "word", "message"),
    [
        (False, 503, "starting", "Worker is still starting up."),
        (
            True,
            500,
            "unhealthy",
            "Worker was unable to handle this request and may be unable to handle other requests.",
        ),
    ],
)
@pytest.mark.parametrize("stage", [None, STAGE])
def test_a_herder_that_does_not_is_starting_or_unhealthy(
    *, ready: bool, status: int, word: str, message: str, stage: HerderStage | None
) -> None:
    herder = FakeHerder(silent=True, reports_ready=ready, doing=stage)
    answer = Rest(herder, deadlines=IMPATIENT)("GET", "/health")
    doing = "" if stage is None else f" {stage}"
    assert (answer.status_code, answer.json()) == (
        status,
        {"status": word, "message": message + doing},
    )


def test_a_herder_that_ended_is_an_error() -> None:
    herder = FakeHerder(silent=True)
    herder.silent = False
    herder.fails = ConnectRestError(500, "Worker is shutting down")
    answer = Rest(herder)("GET", "/health")
    assert (answer.status_code, answer.json()["message"]) == (500, "Worker is shutting down")
