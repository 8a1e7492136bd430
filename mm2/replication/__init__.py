"""Exactly-once copying of one partition, as a pure state machine.

`PartitionReplicator` (`partition_replicator`) drives one source partition and its mirror. It
acquires the partition (`recovery`): fences older writers (`producer_fencing`), reads the offset
map, matches the target's tail with the source (`tail_matching`) and stores a first map segment.
Then it replicates batch by batch. Everything that needs an answer from outside is a generator of
instructions (`recovery_instructions`), which the copier carries out.

No module here opens a socket, starts a thread or reads a clock: time comes in as an argument.
May import `mm2.formats`, `mm2.topics`, `mm2.offsets`, and of `connect_runtime` `base`, `api` and
`protocol`.
"""
