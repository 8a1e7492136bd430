from __future__ import annotations

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.worker import plugin_versions


@pytest.mark.parametrize(
    ("wanted", "version"),
    [
        (None, "9"),
        ("latest", "9"),
        ("4.3.1", "4.3.1"),
        ("4.3", "4.3.0"),
        ("[4,5)", "4.3.1"),
        ("[4.3.1,)", "4.3.1"),
        ("(,4.3.1]", "4.3.1"),
        ("[1,2),(4,)", "4.3.1"),
        ("(1.0-rc1,1.0]", "1.0"),
        ("[1.0-alpha,1.0)", "1.0-SNAPSHOT"),
        ("(1.0,)", "1.0.1-rc1"),
        ("(1,1-zz)", "1-sp"),
    ],
)
def test_what_fits(wanted, version):
    assert plugin_versions.explain_version_mismatch("a.B", wanted, [version]) is None


@pytest.mark.parametrize(
    ("wanted", "version", "shown"),
    [
        ("9", "4.3.1", "[9,9]"),
        ("", "4.3.1", "[,]"),
        ("[4,4.3.1)", "4.3.1", "[4,4.3.1)"),
        ("(,4),(5,)", "4.3.1", "(,4),(5,)"),
        ("[1.0,)", "1.0-rc1", "[1.0,)"),
        ("[4.10,)", "4.9", "[4.10,)"),
    ],
)
def test_what_does_not_fit_is_told_as_by_java(wanted, version, shown):
    assert plugin_versions.explain_version_mismatch("a.B", wanted, [version]) == (
        f"Plugin a.B not found that matches the version range {shown},"
        f" available versions: [{version}]"
    )


def test_numbers_may_have_any_count_of_digits():
    nines, more = "9" * 5_000, "1" + "0" * 5_000
    for wanted in (nines, f"[{nines},{more})", f"[00{nines}]"):
        assert plugin_versions.explain_version_mismatch("a.B", wanted, ["1.0"]) is not None
        assert plugin_versions.explain_version_mismatch("a.B", wanted, [nines]) is None
    with pytest.raises(ConfigError, match="defies version ordering"):
        plugin_versions.explain_version_mismatch("a.B", f"[{more},{nines}]", ["1.0"])


def test_a_plugin_without_a_version_fits_no_wish():
    assert plugin_versions.explain_version_mismatch("a.B", None, []) is None
    assert plugin_versions.explain_version_mismatch("a.B", "[1,)", []) is not None


@pytest.mark.parametrize("wanted", ["[9", "[1,2,3]", "(1)", "[2,1]", "[1,2]x"])
def test_what_is_no_range_is_refused(wanted):
    with pytest.raises(ConfigError):
        plugin_versions.explain_version_mismatch("a.B", wanted, ["1"])
