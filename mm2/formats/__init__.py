"""Serialization formats: record batches, compression, and the records of MirrorMaker 2's and mm2's
own topics.

`record_batch` reads headers of v2 batches and overwrites their producer fields in place.
`record_codec` decodes and encodes the records in a batch. `record_set_splitter` iterates over a
fetched record set, including old message formats. `mirrormaker2_records` contains MirrorMaker 2's
own records, `offset_map_records` the records of the offset map, and `incident_records` the records
about data loss and operator actions.

Performs no I/O and imports no other package of mm2.
"""
