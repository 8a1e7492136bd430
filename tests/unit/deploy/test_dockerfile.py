"""The Dockerfile keeps what it promises; each promise that is broken is seen."""

from __future__ import annotations

import pytest

from tests.support.deployed import image
from tests.support.image.dockerfile import Ignored, Stage

TEXT = (image.DEPLOY / "Dockerfile").read_text()


def changed(old: str, new: str) -> tuple[Stage, ...]:
    assert old in TEXT, old
    return image.read(TEXT.replace(old, new))


def test_ours_is_right():
    assert image.wrong(image.read(TEXT)) == []
    found = image.ours()
    assert found.ports == {image.REST_PORT, image.METRICS_PORT}
    assert found.state == "/var/lib/mm2"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("--no-build-isolation --require-hashes", "--no-build-isolation", "has no hash"),
        ("--no-index \\\n      /opt/wheels/locked", "/opt/wheels/locked", "has no hash"),
        ("apt-get update", "curl example.com && apt-get update", "where from"),
        ("USER 10001:10001", "USER root", "not root's"),
        ("USER 10001:10001", "USER 10001:10001\nRUN true", "installed by the user"),
        ("COPY --from=build /opt/mm2 /opt/mm2", "COPY mm2 /opt/mm2", "from the context"),
        ("FROM ${BASE}\n", "FROM debian\n", "on one base"),
        ("SIGTERM", "SIGKILL", "STOPSIGNAL"),
        ("HOME=/var", "HOME=/opt", "HOME has to be"),
        ("MM2_CACHE=/var/lib/mm2/", "MM2_CACHE=/tmp/", "MM2_CACHE has to be"),
        ("/health/live", "/healthz", "HEALTHCHECK"),
        ('"run", "clusters.yaml"', '"run", "--forever"', "No such option"),
        ('"run", "clusters.yaml"', '"mirror"', "No such command"),
    ],
)
def test_what_is_wrong_is_seen(old, new, told):
    try:
        found = image.wrong(changed(old, new))
    except ValueError as error:
        found = [f"not root's {error}"]
    assert any(told in each for each in found), found


def test_an_instruction_that_nobody_follows_is_refused():
    with pytest.raises(ValueError, match="ADD is not known"):
        image.read(TEXT + "\nADD x /x\n")


def test_a_line_that_goes_on_is_one():
    (stage,) = image.read("FROM a\nRUN one && \\\n    # why\n    two\nENV A=1\nENV B=${A}2\n")
    assert [each.text for each in stage.all("RUN")] == ["one && two"]
    assert stage.environment({}) == {"A": "1", "B": "12"}


@pytest.mark.parametrize(
    ("path", "left_out"),
    [
        ("mm2", False),
        ("mm2/node/mm2_node.py", False),
        ("deploy/locks/build.lock", False),
        ("mm2/app/__pycache__/node.pyc", True),
        ("tests/unit/x.py", True),
        (".git/config", True),
        ("deploy/compose.yaml", True),
        ("shared", True),
    ],
)
def test_the_context_has_what_is_built_from_and_nothing_else(path, left_out):
    ignored = Ignored((image.DEPLOY / "Dockerfile.dockerignore").read_text())
    assert ignored(path) is left_out
