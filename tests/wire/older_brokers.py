"""Brokers that know less and less."""

from collections.abc import Mapping

from kafka_wire.messages import REQUESTS
from kafka_wire.records import Record, build_batch
from kafka_wire.types import FIRST_OFFSET
from tests.support.fake_broker import FakeBroker
from tests.wire.sessions import KEY, TOPIC, VALUES

PARTITIONS = 2


def older_broker(steps: int, *, features: Mapping[str, int] | None = None) -> FakeBroker:
    """One that knows all that we know, but the newest `steps` versions of every API.

    One version is always left. The topic is there, with a record in it.
    """
    ranges = {api_key: request.versions for api_key, request in REQUESTS.items()}
    broker = FakeBroker(
        api_versions={
            api_key: (first, max(first, last - steps)) for api_key, (first, last) in ranges.items()
        },
        topics={TOPIC: PARTITIONS},
        features=features,
    )
    record = Record(FIRST_OFFSET, timestamp_ms=0, key=KEY, value=VALUES[0])
    broker.topics.append((TOPIC, 0), bytearray(build_batch([record])))
    return broker
