"""Serialization formats: record batches, compression, and the records of MirrorMaker 2's and mm2's
own topics.

`record_batch` reads batches of format v2 and re-stamps them in place, `records` decodes and encodes
the records in a batch, and `record_sets` iterates over a fetched record set, including old message
formats. `mirrormaker2_records` contains MirrorMaker 2's own records, `offset_map_records` the
records of the offset map, and `incident_records` the records about data loss and operator actions.

Pure. Imports no other package of mm2.
"""
