from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from connect_runtime.system import private_folder, user_cache

NAMELESS = 54_321
"""No system has a name for it."""


def test_the_folder_follows_the_environment():
    assert user_cache.folder({"MM2_CACHE": "/c", "XDG_CACHE_HOME": "/x"}) == Path("/c")
    assert user_cache.folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/mm2")
    assert user_cache.folder({"MM2_CACHE": ""}) == Path.home() / ".cache" / "mm2"


@pytest.fixture
def home(monkeypatch, tmp_path):
    """What a user without a home is given."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: NAMELESS)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"mm2-home-{os.geteuid()}"


def test_a_user_without_a_home_has_a_folder_all_the_same(home):
    assert user_cache.folder({}) == home / ".cache" / "mm2"
    assert home.stat().st_mode & 0o777 == 0o700


def test_a_home_that_others_can_enter_is_not_used(home):
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    with pytest.raises(private_folder.ForeignFolderError, match="chmod 700"):
        user_cache.folder({})
