"""Replicates one partition exactly once, as a pure state machine.

`PartitionReplicator` (`partition_replicator`) drives one source partition and its mirror. It first
acquires the partition (`partition_recovery`): it fences older writers (`producer_fencing`), reads
the offset map, matches the target's tail with the source (`target_log_tail_matching`) and stores
the first map segment. Then it replicates batch by batch. Each operation that needs a response from
a broker is a generator of instructions (`recovery_instructions`), which the copier carries out.

No module here opens a socket, starts a thread or reads a clock: the current time is passed as an
argument. Allowed imports: `mm2.formats`, `mm2.topics`, `mm2.offsets`, and the `base`, `api` and
`protocol` packages of `connect_runtime`.
"""
