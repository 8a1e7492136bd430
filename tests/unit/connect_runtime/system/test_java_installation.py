from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.system import java_installation
from connect_runtime.system.java_installation import JavaMissingError


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_302"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx="1"\nopenjdk version "25-ea"', 25),
        ("command not found", None),
    ],
)
def test_the_major_version_is_read_from_what_java_prints(banner, version):
    assert java_installation.parse_major_version(banner) == version


def _fake_java(folder: Path, banner: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    program.chmod(0o755)
    return program


def test_java_home_comes_before_the_path(tmp_path):
    home = _fake_java(tmp_path / "home", 'openjdk version "21.0.1"')
    on_path = _fake_java(tmp_path / "other", 'openjdk version "17.0.1"')
    path = str(on_path.parent)

    assert (
        java_installation.find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": path}).program
        == home
    )
    assert java_installation.find_java({"PATH": path}).program == on_path


def test_what_is_missing_is_said_with_what_to_install(tmp_path):
    old = _fake_java(tmp_path / "old", 'java version "1.8.0_302"')
    remedy = r"17 or newer \(Debian, Ubuntu: apt-get install openjdk-17-jre-headless\).*JAVA_HOME"

    with pytest.raises(JavaMissingError, match=f"not found: .*{remedy}"):
        java_installation.find_java({"PATH": str(tmp_path)})
    with pytest.raises(JavaMissingError, match=f"is version 8, but .*{remedy}"):
        java_installation.find_java({"PATH": str(old.parent)})
    with pytest.raises(JavaMissingError, match=f"JAVA_HOME is set to /nowhere, .*{remedy}"):
        java_installation.find_java({"JAVA_HOME": "/nowhere", "PATH": str(old.parent)})
