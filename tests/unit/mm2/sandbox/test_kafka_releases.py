from __future__ import annotations

import pytest

from mm2.sandbox import broker_settings, kafka_releases
from mm2.sandbox.sandbox_errors import SandboxError


@pytest.mark.parametrize(
    "release", kafka_releases.ALL_RELEASES, ids=lambda release: release.version
)
def test_a_release_is_found_by_both_spellings(release):
    assert kafka_releases.find_release(release.version) is release
    assert kafka_releases.find_release(release.short_version) is release


@pytest.mark.parametrize("version", ["", "2", "2.8.1", "4.4", "kafka-2.8.2"])
def test_a_version_that_we_do_not_have_is_refused_with_those_that_we_do(version):
    with pytest.raises(SandboxError) as refused:
        kafka_releases.find_release(version)

    for known in ("2.8 (2.8.2)", "3.9 (3.9.1)", "4.3 (4.3.1)"):
        assert known in str(refused.value)


def test_the_newest_gets_every_setting_of_ours():
    assert kafka_releases.NEWEST_RELEASE.make_default_settings(
        3
    ) == broker_settings.make_default_settings(3)


def test_old_brokers_get_no_setting_that_came_after_them():
    old, newer = (
        kafka_releases.RELEASE_2_8.make_default_settings(1),
        kafka_releases.RELEASE_3_9.make_default_settings(1),
    )

    assert not any(key.startswith(("share.", "controller.", "broker.session")) for key in old)
    assert not any(key.startswith("share.") for key in newer)
    assert "controller.quorum.election.timeout.ms" in newer
    assert old["log.retention.ms"] == newer["log.retention.ms"] == "-1"
