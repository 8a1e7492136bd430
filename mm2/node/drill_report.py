"""Reads and writes the file `drill.report`: each flow's last drill, and the time of its last
successful drill.

`mm2 drill` writes the file. `mm2 run` reads it for `mm2_last_drill_timestamp_seconds`. The file is
always replaced as a whole, and read only if it belongs to the reading user or root. Format:
{"version": 1, "flows": {"east->west": {"passed_at_ms": …, "last": {…}}}}; `last` is the output of
`mm2 drill --json`, with `at_ms` and `passed`.
"""

from __future__ import annotations

import json
import logging
import os
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any

from connect_runtime.base.errors import FatalError
from connect_runtime.system import secure_file_access

FORMAT_VERSION = 1
MAX_FILE_BYTES = 4 << 20
_MAX_TIME_MS = 253_402_300_799_999
"""Maximum time in the drill report: the last millisecond of the year 9999."""
_FILE_MODE = 0o644

_log = logging.getLogger(__name__)


class DrillReportError(FatalError):
    """Raised if the drill report cannot be read or written."""


def record_drill_result(
    path: pathlib.Path, flow: str, result: Mapping[str, Any], *, passed: bool, at_ms: int
) -> None:
    """Store the result of a flow's drill. Results of other flows are preserved. Raises
    `DrillReportError`."""
    flows = dict(read_drill_results(path)) if os.path.lexists(path) else {}
    previous_pass_ms = flows.get(flow, {}).get("passed_at_ms")
    flows[flow] = {
        "passed_at_ms": at_ms if passed else previous_pass_ms,
        "last": {"at_ms": at_ms, "passed": passed, **result},
    }
    text = (
        json.dumps({"version": FORMAT_VERSION, "flows": flows}, indent=2, ensure_ascii=False) + "\n"
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace_file(path, text.encode())
    except OSError as error:
        raise DrillReportError(
            f"cannot write drill.report, {path}: {error.strerror or error}"
        ) from None


def _replace_file(path: pathlib.Path, content: bytes) -> None:
    """Replace a file as a whole, by renaming a new temporary file that no other user can have
    created."""
    opened, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(opened, "wb") as stream:
            stream.write(content)
            os.fchmod(stream.fileno(), _FILE_MODE)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read_drill_results(path: pathlib.Path) -> Mapping[str, Mapping[str, Any]]:
    """Read the drill results by flow. Raises `DrillReportError`."""
    try:
        document = json.loads(
            secure_file_access.read_user_owned_file(path, max_bytes=MAX_FILE_BYTES)
        )
        version, flows = document["version"], document["flows"]
        if version != FORMAT_VERSION:
            raise DrillReportError(
                f"cannot read drill.report, {path}: unsupported version {version}; supported is "
                f"{FORMAT_VERSION}"
            )
        drills = {str(name): dict(each) for name, each in flows.items()}
        for each in drills.values():
            _check_passed_at_ms(each.get("passed_at_ms"))
    except OSError as error:
        raise DrillReportError(
            f"cannot read drill.report, {path}: {error.strerror or error}"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DrillReportError(
            f"cannot read drill.report, {path}: invalid content: {error}"
        ) from None
    return drills


def _check_passed_at_ms(passed_at_ms: object) -> None:
    if passed_at_ms is not None and (
        type(passed_at_ms) is not int or not 0 <= passed_at_ms <= _MAX_TIME_MS
    ):
        raise ValueError("passed_at_ms must be a Unix time in milliseconds")


class LastDrillTimes:
    """Times of each flow's last successful drill. The drill report is read again when it has
    changed."""

    def __init__(self, path: pathlib.Path | None) -> None:
        self._path = path
        self._file_stamp: tuple[int, ...] | None = None
        self._times: Mapping[str, float] = {}
        self._logged_error = ""

    def read_last_success_times_s(self) -> Mapping[str, float] | None:
        """Return the Unix time of each flow's last successful drill; None if no path is configured.

        The result is empty if the file is missing or unreadable. Read errors are logged.
        """
        if self._path is None:
            return None
        try:
            stat = os.lstat(self._path)
        except OSError:
            self._file_stamp, self._times = None, {}
            return self._times
        stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if stamp != self._file_stamp:
            self._file_stamp = stamp
            self._times = self._read_last_success_times(self._path)
        return self._times

    def _read_last_success_times(self, path: pathlib.Path) -> Mapping[str, float]:
        try:
            flows = read_drill_results(path)
            return {
                name: each["passed_at_ms"] / 1000
                for name, each in flows.items()
                if each.get("passed_at_ms") is not None
            }
        except DrillReportError as error:
            if str(error) != self._logged_error:
                self._logged_error = str(error)
                _log.warning("%s; mm2_last_drill_timestamp_seconds is not exported", error)
            return {}
