"""Commands of Debian packages: found, or told what brings them."""

from __future__ import annotations

from tests.support import debian_tools

FILE = """# the command, the package that brings it
java default-jre-headless
promtool prometheus   # checks rules
"""


def test_packages_by_command_comments_aside():
    assert debian_tools.packages(FILE) == {
        "java": "default-jre-headless",
        "promtool": "prometheus",
    }


def test_a_command_that_is_there_is_found():
    assert debian_tools.path("python3").endswith("/python3")


def test_nothing_is_told_where_nothing_lacks_or_others_skipped():
    assert debian_tools.told([]) == []
    assert debian_tools.told(["Skipped: no Docker daemon"]) == []


def test_each_package_is_told_once():
    reasons = [
        "Skipped: needs the Debian package prometheus: apt-get install x prometheus",
        "Skipped: needs the Debian package prometheus: apt-get install x prometheus",
        "Skipped: needs the Debian package chromium-driver: apt-get install x chromium-driver",
    ]
    assert debian_tools.told(reasons) == [
        "3 tests were left out for want of Debian packages. To have them run:",
        "  apt-get install -y --no-install-recommends chromium-driver prometheus",
    ]
