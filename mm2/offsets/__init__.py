"""The offset map, offset syncs, and the modules that translate or publish offsets. The modules do
no I/O.

`OffsetMap` (`offset_map`) keeps the current state of the offset map topic, and `OffsetSyncStore`
(`offset_syncs`) keeps the current state of MirrorMaker 2's offset-syncs topic. `offset_translation`
translates source offsets to target offsets. `checkpoint_rules` and `group_offset_sync` decide what
is published and written for consumer groups. `log_alignment` and `map_rebuild` rebuild a lost map
from both logs.

May import `mm2.formats`, `mm2.topics`, and `base` and `api` of `connect_runtime`.
"""
