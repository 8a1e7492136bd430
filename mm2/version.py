"""The version of mm2, identical to the version in the package's metadata (a test compares them)."""

from __future__ import annotations

VERSION = "0.1.0"
