"""The offset map, offset syncs and everything that translates or publishes offsets. Pure.

`OffsetMap` (`offset_map`) folds the offset map topic, `OffsetSyncStore` (`offset_syncs`) the
offset-syncs topic of MirrorMaker 2. `translation` answers which target offset a source offset
has, `checkpoint_rules` and `group_offset_sync` decide what is published and written for consumer
groups, `log_alignment` and `map_rebuild` rebuild a lost map from both logs.

May import `mm2.formats`, `mm2.topics`, and of `connect_runtime` `base` and `api`.
"""
