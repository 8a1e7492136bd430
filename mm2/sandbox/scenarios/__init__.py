"""Scenarios with two clusters on this machine: `mm2 demo` and `mm2 drill`.

`replication_demo.Demo` runs traffic, replication, the comparison and a failover.
`failover_drill.Drill` rehearses a failover with the user's own flow and reports its effects.
`progress_printer.ProgressPrinter` prints the steps of the demo.

These modules are composition roots: they may import all of `mm2` except `mm2.cli`.
"""
