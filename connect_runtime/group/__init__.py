"""The Connect worker group protocol as pure state machines: membership, rebalances and assignors.

`GroupMember` finds the coordinator, joins, syncs, sends heartbeats and leaves. It receives events
and returns instructions. `perform_assignment`, the leader's part of a rebalance, uses the eager or
the incremental cooperative assignor (KIP-415). `ConnectorsAndTasks` is the unit of assignment, and
`connect_protocol` encodes the data that members exchange.

May import `connect_runtime.base` and `.protocol`. Uses no sockets, threads or clocks: the caller
passes the time.
"""
