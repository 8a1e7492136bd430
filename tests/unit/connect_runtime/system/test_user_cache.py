from __future__ import annotations

import os
import tempfile
from pathlib import Path

from connect_runtime.system import user_cache

NAMELESS = 54_321
"""No system has a name for it."""


def test_the_folder_follows_the_environment():
    assert user_cache.folder({"MM2_CACHE": "/c", "XDG_CACHE_HOME": "/x"}) == Path("/c")
    assert user_cache.folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/mm2")
    assert user_cache.folder({"MM2_CACHE": ""}) == Path.home() / ".cache" / "mm2"


def test_a_user_without_a_home_has_a_folder_all_the_same(monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: NAMELESS)
    monkeypatch.setattr(os, "geteuid", lambda: NAMELESS)
    expected = Path(tempfile.gettempdir()) / f"mm2-home-{NAMELESS}" / ".cache" / "mm2"
    assert user_cache.folder({}) == expected
