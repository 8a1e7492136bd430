"""Every sample of `clusters.yaml` is taken by mm2, in full and without a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.config.config_errors import SettingsError
from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock
from mm2.config import config_loader
from tests.support.deployed import image

SAMPLES = sorted((image.DEPLOY / "samples").glob("*.yaml"))
FLOWS = {
    "active-active": ["east->west", "west->east"],
    "disaster-recovery": ["primary->standby", "standby->primary"],
    "fan-in": ["berlin->central", "oslo->central"],
    "secured": ["scram->certificate", "certificate->token"],
    "spark-cluster": ["east->west"],
}
ENVIRONMENT = {"OAUTH_SECRET": "secret-of-a-test", "SPARK_SECRET": "secret-of-a-test"}


@pytest.fixture
def taken(tmp_path: Path):
    """Loads a sample, whose files in /etc/mm2 are the test's own."""
    now_ms = SystemClock().wall_ms()
    authority = CertificateAuthority.create("ca", wall_ms=now_ms)
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
    issued = authority.issue_certificate("mm2", hosts=(), wall_ms=now_ms)
    (tmp_path / "client.pem").write_bytes(issued.key_pem + issued.certificate_pem)
    (tmp_path / "passwords.properties").write_text("scram=secret-of-a-test\n")

    def take(text: str):
        file = tmp_path / "clusters.yaml"
        file.write_text(text.replace("/etc/mm2", str(tmp_path)))
        return config_loader.load_config_file(file, environment=ENVIRONMENT)

    return take


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_taken(sample, taken):
    found = taken(sample.read_text())
    assert not found.warnings
    assert [flow.name for flow in found.flows] == FLOWS[sample.stem]


def test_none_is_left_out():
    assert {path.stem for path in SAMPLES} == FLOWS.keys()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_a_key_that_is_wrong_would_be_seen(sample, taken):
    text = sample.read_text()
    with pytest.raises(SettingsError, match=r"flows\[0\]\.too|is not a known"):
        taken(text.replace("  - from:", "  - too: much\n    from:", 1))
