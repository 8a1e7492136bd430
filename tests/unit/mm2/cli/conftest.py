from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Settings without a mistake; nobody listens at these addresses."""
    path = tmp_path / "clusters.yaml"
    path.write_text(
        """
clusters:
  east: {bootstrap.servers: "localhost:1"}
  west: {bootstrap.servers: "localhost:2"}
flows:
  - {from: east, to: west}
  - {from: west, to: east}
"""
    )
    return path
