"""The version of this product; the package's metadata says the same (a test sees to it)."""

from __future__ import annotations

VERSION = "0.1.0"
