"""The offset map, offset syncs, and the modules that translate or publish offsets. The modules do
no I/O.

`OffsetMap` (`offset_map`) keeps the current state of the offset map topic, and `OffsetSyncStore`
(`offset_syncs`) keeps the current state of MirrorMaker 2's offset-syncs topic. `offset_translation`
translates source offsets to target offsets and back. `checkpoint_rules` decides which checkpoints
are published, and `group_offset_sync` decides which group offsets are written on the target.
`partition_log_alignment` and `offset_map_rebuild_plan` rebuild a lost map from the logs of source
and target.

This package may import `mm2.formats`, `mm2.topics`, and `base` and `api` of `connect_runtime`.
"""
