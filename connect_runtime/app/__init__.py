"""Composition: reads the settings of a worker, builds it from the other packages and runs it.

`WorkerAssembly` is a worker without REST servers. `WorkerProcess` gives it its own servers, for
`connect-distributed` and `connect-standalone`; `WorkerFleet` runs several workers of different
groups in one process, as MirrorMaker's dedicated mode does.

May import every other package of connect_runtime; only mm2 imports this one.
"""
