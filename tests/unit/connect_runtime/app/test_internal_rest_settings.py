from __future__ import annotations

import pytest

from connect_runtime.app import internal_rest_settings
from connect_runtime.app.worker_settings import WorkerSettingsSource
from connect_runtime.config.config_errors import SettingsError


@pytest.fixture
def source(tmp_path):
    return WorkerSettingsSource(file="mm2.properties", folder=tmp_path, environment={"PORT": "7"})


def test_listeners_are_read_and_nothing_else(source):
    found = internal_rest_settings.read_internal_rest_settings(
        {
            "clusters": "a, b",
            "listeners": "http://127.0.0.1:0",
            "rest.advertised.host.name": "here",
            "rest.advertised.port": "99",
        },
        source,
    )
    assert [str(each) for each in found.settings.listeners] == ["http://127.0.0.1:0"]
    assert (found.settings.advertised.host, found.settings.advertised.port) == ("here", 99)
    assert (found.https, found.warnings) == (None, ())


def test_all_that_is_wrong_is_told_with_its_file(source):
    with pytest.raises(SettingsError) as caught:
        internal_rest_settings.read_internal_rest_settings(
            {"listeners": "ftp://x:1", "rest.advertised.port": "many"}, source
        )
    assert caught.value.file == "mm2.properties"
    assert [each.key for each in caught.value.problems] == ["listeners", "rest.advertised.port"]


def test_https_needs_its_settings(source):
    with pytest.raises(SettingsError, match="ssl"):
        internal_rest_settings.read_internal_rest_settings({"listeners": "https://:0"}, source)
