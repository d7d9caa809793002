"""A Spark data source for Kafka-compatible clusters, and the load generator of the verification.

Nothing is here yet. To come: batch and streaming, read and write; the schema and the writer of
histories; the load generator. It imports `kafka_wire` alone, so that a zip of the two packages is
all an executor needs.
"""
