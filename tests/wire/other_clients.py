"""The record and codec modules of other Kafka clients, as independent opinions on our bytes."""

import warnings
from typing import Any

import cramjam

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function that Python 3.11 deprecates and 3.13 restores.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka.codec as kafka_python_codec  # type: ignore[import-untyped]
    import kafka.errors as kafka_python_errors  # type: ignore[import-untyped]
    import kafka.record.default_records as kafka_python_records  # type: ignore[import-untyped]

import aiokafka.codec as aiokafka_codec  # type: ignore[import-untyped]
import aiokafka.record.default_records as aiokafka_records  # type: ignore[import-untyped]

__all__ = [
    "aiokafka_codec",
    "aiokafka_records",
    "kafka_python_codec",
    "kafka_python_errors",
    "kafka_python_records",
]


class _Snappy:
    """What kafka-python wants of python-snappy; the framing around it is kafka-python's own."""

    @staticmethod
    def compress(data: Any) -> bytes:
        return bytes(cramjam.snappy.compress_raw(data))

    @staticmethod
    def decompress(data: Any) -> bytes:
        return bytes(cramjam.snappy.decompress_raw(data))


kafka_python_codec.snappy = _Snappy
