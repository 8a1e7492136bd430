"""The release of Apache Kafka that this worker and its plugins are compatible with."""

from __future__ import annotations

KAFKA_VERSION = "4.3.1"
"""Reported as the plugins' version, so that connectors that require this version find them."""
