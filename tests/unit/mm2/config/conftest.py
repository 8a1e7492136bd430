from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping

import pytest

from connect_runtime.config.config_errors import ConfigProblem, SettingsError
from mm2.config import config_loader
from mm2.config.mm2_settings import Mm2Settings

Read = Callable[..., Mm2Settings]
Wrong = Callable[..., list[ConfigProblem]]


@pytest.fixture
def read(tmp_path: pathlib.Path) -> Read:
    """Settings from text, with the environment and folder of this test."""

    def from_text(text: str, environment: Mapping[str, str] | None = None) -> Mm2Settings:
        return config_loader.parse_clusters_yaml(
            text, file="c.yaml", folder=tmp_path, environment=environment or {}
        )

    return from_text


@pytest.fixture
def wrong(read: Read) -> Wrong:
    """The problems of a text that must have some."""

    def from_text(text: str, environment: Mapping[str, str] | None = None) -> list[ConfigProblem]:
        with pytest.raises(SettingsError) as caught:
            read(text, environment)
        return list(caught.value.problems)

    return from_text
