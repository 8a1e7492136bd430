"""Which release of Apache Kafka the plugins here stand in for."""

from __future__ import annotations

KAFKA = "4.3.1"
"""What they report as their version, so that a connector that asks for one finds it."""
