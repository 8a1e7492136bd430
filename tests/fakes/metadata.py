"""What a cluster's metadata say, without the cluster."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from connect_runtime.base.backoff import Backoff
from connect_runtime.protocol.cluster_metadata import ClusterMetadata


def view(*topics: str, **given: Any) -> ClusterMetadata:
    """A cluster of broker 1, as `say` tells it of these topics."""
    retry = Backoff(initial_s=0.1, max_s=1.0)
    found = ClusterMetadata(random.Random(1), retry=retry, max_age_s=300.0)
    found.set_metadata_topics(topics)
    say(found, **given)
    return found


def say(view: ClusterMetadata, *, leader: int = 1, error_code: int = 0, partition: int = 4) -> None:
    """An answer arrives; a topic with an error has no partitions."""
    part = SimpleNamespace(partition_index=partition, leader_id=leader, leader_epoch=2)
    topics = [
        SimpleNamespace(name=each, error_code=error_code, partitions=[] if error_code else [part])
        for each in view.start_refresh()
    ]
    brokers = [SimpleNamespace(node_id=1, host="a", port=9092)]
    view.apply_response(SimpleNamespace(controller_id=1, brokers=brokers, topics=topics), 0.0)
