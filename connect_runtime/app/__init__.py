"""Reads a worker's settings, builds the worker from the other packages and runs it.

`WorkerAssembly` is a worker without REST servers. `WorkerProcess` adds the worker's own REST
servers, for `connect-distributed` and `connect-standalone`. `WorkerFleet` runs several workers of
different groups in one process, like MirrorMaker's dedicated mode.

May import every other package of connect_runtime; only mm2 imports this package.
"""
