"""The file `drill.report`: the last drill of each flow, and when one last passed.

`mm2 drill` writes it, `mm2 run` reads it for `mm2_last_drill_timestamp_seconds`. It is replaced
as a whole. Format: {"version": 1, "flows": {"east->west": {"passed_at_ms": …, "last": {…}}}};
`last` is what `mm2 drill --json` prints, with `at_ms` and `passed`.
"""

from __future__ import annotations

import json
import logging
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from connect_runtime.base.errors import FatalError

FORMAT_VERSION = 1
_TEMPORARY_SUFFIX, _FILE_MODE = ".writing", 0o644

_log = logging.getLogger(__name__)


class DrillReportError(FatalError):
    """The report of drills cannot be read or written."""


def record_drill(
    path: pathlib.Path, flow: str, result: Mapping[str, Any], *, passed: bool, at_ms: int
) -> None:
    """Write what a drill of the flow came to; other flows stay. Raises `DrillReportError`."""
    flows = dict(read_drills(path)) if path.exists() else {}
    before = flows.get(flow, {}).get("passed_at_ms")
    flows[flow] = {
        "passed_at_ms": at_ms if passed else before,
        "last": {"at_ms": at_ms, "passed": passed, **result},
    }
    text = (
        json.dumps({"version": FORMAT_VERSION, "flows": flows}, indent=2, ensure_ascii=False) + "\n"
    )
    beside = path.with_name(path.name + _TEMPORARY_SUFFIX)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.chmod(_FILE_MODE)
        beside.replace(path)
    except OSError as error:
        raise DrillReportError(f"writing drill.report, {path}: {error.strerror or error}") from None


def read_drills(path: pathlib.Path) -> Mapping[str, Mapping[str, Any]]:
    """By flow. Raises `DrillReportError`."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        version, flows = found["version"], found["flows"]
        if version != FORMAT_VERSION:
            raise DrillReportError(
                f"reading drill.report, {path}: it is of version {version}; known is "
                f"{FORMAT_VERSION}"
            )
        return {str(name): dict(each) for name, each in flows.items()}
    except OSError as error:
        raise DrillReportError(f"reading drill.report, {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DrillReportError(f"reading drill.report, {path}: it is no report: {error}") from None


class LastDrillTimes:
    """When a drill of each flow passed last; the file is read again when it is another."""

    def __init__(self, path: pathlib.Path | None) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._found: Mapping[str, float] = {}
        self._told = ""

    def passed_s(self) -> Mapping[str, float] | None:
        """Unix time by flow; nothing while there is no such file, or one that cannot be read, which
        is told. None where no file is named."""
        if self._path is None:
            return None
        try:
            seen = os.stat(self._path)
        except OSError:
            self._stamp, self._found = None, {}
            return self._found
        stamp = (seen.st_mtime_ns, seen.st_size)
        if stamp != self._stamp:
            self._stamp = stamp
            self._found = self._read(self._path)
        return self._found

    def _read(self, path: pathlib.Path) -> Mapping[str, float]:
        try:
            flows = read_drills(path)
            return {
                name: each["passed_at_ms"] / 1000
                for name, each in flows.items()
                if each.get("passed_at_ms") is not None
            }
        except (DrillReportError, TypeError) as error:
            if str(error) != self._told:
                self._told = str(error)
                _log.warning("%s; no time of the last drill is shown", error)
            return {}
