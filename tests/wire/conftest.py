"""Fixtures of the tests of the wire."""

from tests.support.apache_kafka import apache_kafka

__all__ = ["apache_kafka"]
