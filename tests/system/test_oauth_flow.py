"""A whole flow whose source takes tokens only, and outlives them."""

from __future__ import annotations

import pytest

from mm2.sandbox import port_reservation
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import content, issuer, kafka, mirror
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.full, pytest.mark.timeout(600)]

ENGINES = ["inline", "spark"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_source_with_short_tokens_is_mirrored_and_no_output_holds_one(
    tmp_path, west, topic, engine
):
    inner = port_reservation.reserve_port()
    listeners = {1: [issuer.plain_listener(inner.port)]}
    with (
        issuer.running() as found,
        SandboxCluster("tokens", listeners=listeners, **issuer.trusting(found)) as east,
    ):
        found.life_s = 4.0
        plain = {"bootstrap.servers": east.get_listener_bootstrap("INNER")}
        name = kafka.create_topic(plain, topic())
        kafka.produce(plain, name, content.some(500))
        source = {"bootstrap.servers": east.bootstrap, **found.client_properties()}
        given = mirror.settings(
            source, west.client_properties(), topics=[name], spark={"engine": engine}
        )
        with Mirror(tmp_path, given) as running:
            running.await_records(500)
            before = found.asked
            sent = 500
            while found.asked < before + 6:
                kafka.produce(plain, name, content.some(10))
                sent += 10
                running.await_records(sent)
            running.stop()
            log = running.log
        source_records = kafka.read_partition(plain, name, 0)
    secrets = [issuer.SECRET, *found.tokens]
    assert not [secret for secret in secrets if secret in log]
    assert "Traceback" not in log
    copied = kafka.read_partition(west.client_properties(), f"east.{name}", 0)
    assert kafka.differences(source_records, copied) == []
    inner.release()
