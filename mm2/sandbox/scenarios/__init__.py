"""Scenarios with two clusters on this machine: `mm2 demo` and `mm2 drill`.

`replication_demo.Demo` produces traffic, replicates it, compares both clusters, and fails a
consumer group over. `failover_drill.Drill` rehearses a failover with the user's own flow and
reports its effects. `progress_printer.ProgressPrinter` prints the steps of the demo.

These modules connect all parts of the product, so they may import all of `mm2` except `mm2.cli`.
"""
