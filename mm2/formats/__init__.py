"""Bytes on disk and on the wire: record batches, compression, and the records of mm2's own topics.

`record_batch` reads and re-stamps batches of format v2 in place, `records` decodes and encodes
the records inside, `record_sets` walks over a fetched record set, old formats included.
`mm2_records` holds MirrorMaker 2's own records, `offset_map_records` those of the offset map,
`incident_records` those about data loss and operator actions.

Pure. Imports nothing else of mm2.
"""
