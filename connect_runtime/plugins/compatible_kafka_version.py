"""Defines the Apache Kafka release that this worker and its plugins are compatible with."""

from __future__ import annotations

KAFKA_VERSION = "4.3.1"
"""Kafka version that the worker's REST API, its metrics and the shipped plugins report."""
