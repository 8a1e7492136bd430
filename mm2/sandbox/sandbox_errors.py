"""Sandbox errors. Each message says how to resolve the problem."""

from __future__ import annotations

from connect_runtime.base.errors import FatalError


class SandboxError(FatalError):
    """The sandbox cannot perform the requested operation."""


class PortInUseError(SandboxError):
    """Another process started using a broker's port between the port check and the broker's
    start."""


class UnknownClusterError(SandboxError):
    """The command names no cluster, or a cluster that the sandbox does not have."""
