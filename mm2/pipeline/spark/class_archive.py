"""A class-data archive for the driver's JVM: Spark starts with half the CPU time.

Nobody ships one, and it fits one Java and one Spark alone. So a driver that has run for a while
writes down the classes that it has loaded, once, and the next ones begin with these. It is kept in
the user's cache (70 MB). A JVM ignores an archive that does not fit, and all works without.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path

from connect_runtime.system import user_cache
from mm2.pipeline.spark import settings

_OTHERS_WRITE = 0o022
OPTION = "-XX:SharedArchiveFile="
_WRITE = "-XX:+RecordDynamicDumpInfo"


KEPT = 4
"""As many archives, the newest ones: each new Java or Spark needs another."""


class ClassArchive:
    """Of one Java (`banner`: what it says of itself) and one Spark (`home`), in a folder."""

    def __init__(self, banner: str, home: Path, *, folder: Path | None = None) -> None:
        self._folder = folder or user_cache.folder()
        told = f"{banner}\n{home.resolve()}\n{_changed_ns(home / 'jars')}"
        key = hashlib.sha256(told.encode()).hexdigest()[:16]
        self._path = self._folder / f"spark.{key}.jsa"

    @property
    def options(self) -> str:
        """JVM options that use it, or that make it possible to write one. An empty file says that
        none could be made; what others may have written is not used, nor what needs quotes."""
        if settings.NEEDS_QUOTES.search(str(self._path)):
            return ""
        try:
            found = self._path.stat()
            if found.st_size and self._is_ours(found) and self._is_ours(self._folder.stat()):
                return f"{OPTION}{self._path}"
        except FileNotFoundError:
            return _WRITE
        except OSError:
            pass
        return ""

    @property
    def wanted(self) -> bool:
        """Is there none, and may there be?"""
        return self.options == _WRITE

    def keep(self, written: Path) -> None:
        """What a JVM has written, or has not been able to. Raises `OSError`."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        unfinished = self._path.with_suffix(f".{os.getpid()}")
        try:
            if written.exists():
                shutil.copyfile(written, unfinished)
            else:
                unfinished.touch()
            unfinished.chmod(0o600)
            unfinished.replace(self._path)
            for old in sorted(self._folder.glob("spark.*.jsa"), key=_changed_ns)[:-KEPT]:
                old.unlink(missing_ok=True)
        finally:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)

    @staticmethod
    def _is_ours(found: os.stat_result) -> bool:
        return found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_WRITE


def _changed_ns(path: Path) -> int:
    """0 where there is none."""
    with suppress(OSError):
        return path.stat().st_mtime_ns
    return 0
