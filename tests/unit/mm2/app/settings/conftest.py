from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping

import pytest

from connect_runtime.app.settings import problems
from mm2.app.settings import load, settings

Read = Callable[..., settings.Settings]
Wrong = Callable[..., list[problems.Problem]]


@pytest.fixture
def read(tmp_path: pathlib.Path) -> Read:
    """Settings from text, with the environment and folder of this test."""

    def from_text(text: str, environment: Mapping[str, str] | None = None) -> settings.Settings:
        return load.parse(text, file="c.yaml", folder=tmp_path, environment=environment or {})

    return from_text


@pytest.fixture
def wrong(read: Read) -> Wrong:
    """The problems of a text that must have some."""

    def from_text(
        text: str, environment: Mapping[str, str] | None = None
    ) -> list[problems.Problem]:
        with pytest.raises(problems.SettingsError) as caught:
            read(text, environment)
        return list(caught.value.problems)

    return from_text
