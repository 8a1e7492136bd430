from __future__ import annotations

import pathlib
import tomllib

from mm2 import version


def test_the_package_has_the_same_version():
    pyproject = pathlib.Path(__file__).parents[3] / "pyproject.toml"
    assert tomllib.loads(pyproject.read_text())["project"]["version"] == version.VERSION
