"""A flow whose clusters come back at other addresses: the bootstrap address is all that stays."""

from __future__ import annotations

import pytest

from mm2.sandbox import port_reservation
from tests.support import content, kafka, mirror, moving
from tests.support.doors import Door, Doors
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.full, pytest.mark.timeout(600)]


def test_a_flow_finds_both_clusters_again_at_other_addresses(tmp_path, own_cluster, topic):
    east, west = own_cluster("here"), own_cluster("yonder")
    by_door = {Door(int(each.bootstrap.rpartition(":")[2])): each for each in (east, west)}
    reserved = [port_reservation.reserve_port() for _ in by_door]
    source, target = (
        {"bootstrap.servers": door.address, "security.protocol": "PLAINTEXT"} for door in by_door
    )
    with Doors(*by_door):
        name = kafka.create_topic(east.client_properties(), topic())
        kafka.produce(east.client_properties(), name, content.some(400))
        given = mirror.settings(source, target, topics=[name], spark={"engine": "inline"})
        with Mirror(tmp_path, given) as running:
            running.await_records(400)
            for (door, each), port in zip(by_door.items(), reserved, strict=True):
                moving.restart_elsewhere(each, port.port)
                door.target = port.port
            kafka.produce(source, name, content.some(300))
            running.await_records(700)
            assert running.stopped() == set()
            running.stop()
        before = kafka.read_partition(source, name, 0)
        after = kafka.read_partition(target, f"east.{name}", 0)
        assert len(before) == 700
        assert kafka.differences(before, after) == []
    for port in reserved:
        port.release()
