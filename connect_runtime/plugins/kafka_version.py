"""The release of Apache Kafka that this worker and its plugins correspond to."""

from __future__ import annotations

KAFKA_VERSION = "4.3.1"
"""What they report as their version, so that a connector that asks for one finds it."""
