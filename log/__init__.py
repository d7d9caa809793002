"""The segmented log of a partition, in Kafka's own format on disk, over a file-system port.

`log.recovery.open_log` opens one partition's log, `log.data_directory.DataDirectory` all logs
under a path. Nothing here starts a thread or reads a clock.
"""
