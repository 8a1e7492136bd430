"""The version of mm2, the same as in the package's metadata (a test compares them)."""

from __future__ import annotations

VERSION = "0.1.0"
