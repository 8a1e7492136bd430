from __future__ import annotations

from pathlib import Path

from connect_runtime.system import user_cache


def test_the_folder_follows_the_environment():
    assert user_cache.folder({"MM2_CACHE": "/c", "XDG_CACHE_HOME": "/x"}) == Path("/c")
    assert user_cache.folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/mm2")
    assert user_cache.folder({"MM2_CACHE": ""}) == Path.home() / ".cache" / "mm2"
