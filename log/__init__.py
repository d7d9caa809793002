"""The segmented log of a partition, in Kafka's own format on disk, over a file-system port.

Nothing is here yet. To come: segments and their indexes, leader epochs, producer state, recovery,
retention, compaction, and the two file systems (the operating system's and a faulty one in
memory).
"""
