"""The wire: our codec against kio, the checksum and the codecs against their candidates.

Both sides get the same bytes, or the same message built beforehand. Where kio cannot do what we
do (records that are not copied, a vector of buffers) it does what it can, and the label says what
ours does. Functions that a server looks up once per connection are looked up once here, too.
"""

import io
import random
import sys
from collections.abc import Callable
from typing import Any

import aiokafka.codec as aiokafka_codec  # type: ignore[import-untyped]
import crc32c as crc32c_package
import google_crc32c
from aiokafka.record.default_records import (  # type: ignore[import-untyped]
    DefaultRecordBatch,
    DefaultRecordBatchBuilder,
)
from kio.index import load_request_schema, load_response_schema
from kio.schema.produce.v11.request import ProduceRequest as KioProduceRequest
from kio.schema.request_header.v2.header import RequestHeader as KioRequestHeader
from kio.serial import entity_reader, entity_writer

from bench.harness import Limit, Ratio, Speedup, Suite, python_ms
from kafka_wire.compression import Compression, compress, decompress
from kafka_wire.crc import crc32c
from kafka_wire.messages import (
    FetchRequest,
    FetchResponse,
    MetadataResponse,
    ProduceRequest,
)
from kafka_wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchTopic,
    PartitionData,
)
from kafka_wire.messages.metadata import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafka_wire.messages.produce import PartitionProduceData, TopicProduceData
from kafka_wire.protocol import decode_request, encode_request
from kafka_wire.records import iter_records, validate_batch

KB = 1024
PRODUCE, FETCH, METADATA = 0, 1, 3
RANDOM = random.Random(1)
RECORDS = RANDOM.randbytes(16 * KB)


def main() -> int:
    suite = Suite("wire")
    produce(suite)
    fetch(suite)
    metadata(suite)
    records(suite)
    checksums(suite)
    codecs(suite)
    suite.measure("import kafka_wire", python_ms("import kafka_wire"), target=Limit(at_most=150))
    return suite.finish()


# --- messages ----------------------------------------------------------------------------------


def produce_request(partitions: int, size_bytes: int) -> ProduceRequest:
    data = [
        PartitionProduceData(index=index, records=RECORDS[:size_bytes])
        for index in range(partitions)
    ]
    return ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name="events", partition_data=data)],
    )


def produce(suite: Suite) -> None:
    compare_produce(suite, 1, 16 * KB, Ratio(at_most=2.0, peer="kio"))
    compare_produce(suite, 50, KB, None)

    request = produce_request(1, 16 * KB)
    parts = encode_request(request, api_version=11, correlation_id=1, client_id="client")
    whole = b"".join(parts)
    view = memoryview(whole)
    read_header, read_body = entity_reader(KioRequestHeader), entity_reader(KioProduceRequest)

    def kio_header_and_body() -> object:
        header, size = read_header(whole, 0)
        return header, read_body(whole, size)

    suite.compare(
        "Produce header and body decode, 1x16 KB",
        ours=lambda: decode_request(view),
        peers={"kio": kio_header_and_body},
    )


def compare_produce(suite: Suite, partitions: int, size_bytes: int, target: Ratio | None) -> None:
    version = 11
    decode = ProduceRequest.decoder(version)
    read = entity_reader(load_request_schema(PRODUCE, version))
    data = produce_request(partitions, size_bytes).encode(version)
    frame, end = memoryview(data), len(data)
    suite.compare(
        f"Produce decode, {partitions}x{size_bytes // KB} KB, no copy",
        ours=lambda: decode(frame, 0, end),
        peers={"kio": lambda: read(data, 0)},
        target=target,
    )


def fetch_request(partitions: int) -> FetchRequest:
    wanted = [
        FetchPartition(partition=index, fetch_offset=100, partition_max_bytes=KB * KB)
        for index in range(partitions)
    ]
    return FetchRequest(
        max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic="events", partitions=wanted)]
    )


def fetch_response(partitions: int, batch: bytes) -> FetchResponse:
    data = [
        PartitionData(
            partition_index=index,
            high_watermark=100,
            last_stable_offset=100,
            log_start_offset=0,
            aborted_transactions=None,
            records=batch,
        )
        for index in range(partitions)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="events", partitions=data)])


def fetch(suite: Suite) -> None:
    compare_fetch_request(suite, 1)
    compare_fetch_request(suite, 50)
    compare_fetch_response(suite, 1, 16 * KB, None)
    compare_fetch_response(suite, 50, KB, Speedup(at_least=8, peer="kio"))


def compare_fetch_request(suite: Suite, partitions: int) -> None:
    version = 12
    decode = FetchRequest.decoder(version)
    read = entity_reader(load_request_schema(FETCH, version))
    data = fetch_request(partitions).encode(version)
    frame, end = memoryview(data), len(data)
    suite.compare(
        f"Fetch request decode, {partitions} partition(s)",
        ours=lambda: decode(frame, 0, end),
        peers={"kio": lambda: read(data, 0)},
    )


def compare_fetch_response(
    suite: Suite, partitions: int, size_bytes: int, target: Speedup | None
) -> None:
    version = 12
    label = f"{partitions}x{size_bytes // KB} KB"
    kio_class = load_response_schema(FETCH, version)
    read, write = entity_reader(kio_class), entity_writer(kio_class)
    decode = FetchResponse.decoder(version)
    batch = RECORDS[:size_bytes]
    response = fetch_response(partitions, batch)
    data = response.encode(version)
    frame = memoryview(data)
    entity, _ = read(data, 0)
    suite.compare(
        f"Fetch response encode to buffers, {label}",
        ours=lambda: response.encode_parts(version),
        peers={"kio": lambda: write(io.BytesIO(), entity)},
        target=target,
    )
    suite.compare(
        f"Fetch response build and encode, {label}",
        ours=lambda: fetch_response(partitions, batch).encode_parts(version),
        peers={"kio": lambda: write(io.BytesIO(), rebuilt(entity))},
    )
    suite.compare(
        f"Fetch response decode, {label}, no copy",
        ours=lambda: decode(frame, 0, len(frame)),
        peers={"kio": lambda: read(data, 0)},
    )


def rebuilt(response: Any) -> Any:
    """A fetch response of kio, built anew from the values in an old one."""
    (topic,) = response.responses
    partition_class = type(topic.partitions[0])
    partitions = tuple(
        partition_class(
            partition_index=old.partition_index,
            error_code=old.error_code,
            high_watermark=old.high_watermark,
            last_stable_offset=old.last_stable_offset,
            log_start_offset=old.log_start_offset,
            aborted_transactions=old.aborted_transactions,
            preferred_read_replica=old.preferred_read_replica,
            records=old.records,
        )
        for old in topic.partitions
    )
    return type(response)(
        throttle_time=response.throttle_time,
        error_code=response.error_code,
        session_id=response.session_id,
        responses=(type(topic)(topic=topic.topic, partitions=partitions),),
    )


def metadata(suite: Suite) -> None:
    version = 12
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node, host=f"broker-{node}.example", port=9092)
            for node in (1, 2, 3)
        ],
        cluster_id="aGVsbG8td29ybGQtMTIzNA",
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                name=f"topic-{number:03}",
                topic_id=RANDOM.randbytes(16),
                partitions=[
                    MetadataResponsePartition(
                        partition_index=index,
                        leader_id=1 + index % 3,
                        leader_epoch=5,
                        replica_nodes=[1, 2, 3],
                        isr_nodes=[1, 2, 3],
                    )
                    for index in range(10)
                ],
            )
            for number in range(100)
        ],
    )
    kio_class = load_response_schema(METADATA, version)
    read, write = entity_reader(kio_class), entity_writer(kio_class)
    data = response.encode(version)
    entity, _ = read(data, 0)
    decode, frame = MetadataResponse.decoder(version), memoryview(data)
    suite.compare(
        "Metadata encode, 100 topics x 10 partitions",
        ours=lambda: response.encode(version),
        peers={"kio": lambda: write(io.BytesIO(), entity)},
        target=Speedup(at_least=3, peer="kio"),
    )
    suite.compare(
        "Metadata decode, 100 topics x 10 partitions",
        ours=lambda: decode(frame, 0, len(frame)),
        peers={"kio": lambda: read(data, 0)},
    )


# --- record batches ----------------------------------------------------------------------------


def records(suite: Suite) -> None:
    values = [RANDOM.randbytes(90) for _ in range(160)]
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=KB * KB,
    )
    for offset, value in enumerate(values):
        builder.append(offset, 1_700_000_000_000, None, value, [])
    batch = bytes(builder.build())
    view = memoryview(batch)
    size = f"{len(batch) // KB} KB"

    suite.compare(
        f"batch header and checksum, {size}",
        ours=lambda: validate_batch(view),
        peers={"aiokafka": lambda: DefaultRecordBatch(batch).validate_crc()},
    )

    suite.compare(
        "iterate 160 records",
        ours=lambda: [record.value for record in iter_records(view)],
        peers={"aiokafka": lambda: [record.value for record in DefaultRecordBatch(batch)]},
    )


# --- checksums and codecs ----------------------------------------------------------------------


def checksums(suite: Suite) -> None:
    for label, size_bytes in (("1 KB", KB), ("16 KB", 16 * KB), ("1 MB", KB * KB)):
        compare_checksums(suite, label, RANDOM.randbytes(size_bytes))


def compare_checksums(suite: Suite, label: str, data: bytes) -> None:
    suite.compare(
        f"CRC32C, {label}",
        ours=lambda: crc32c(data),
        peers={
            "google-crc32c": lambda: google_crc32c.value(data),
            "crc32c": lambda: crc32c_package.crc32c(data),
        },
        target=Ratio(at_most=1.0),
    )


def codecs(suite: Suite) -> None:
    """For orientation: ours are at Java's default levels, aiokafka's at 9 for gzip and lz4."""
    lines = [
        f'{{"user": {RANDOM.randrange(10_000)}, "page": "/item/{RANDOM.randrange(500)}"}}'
        for _ in range(1000)
    ]
    text = "\n".join(lines).encode()[: 16 * KB]
    theirs = {
        Compression.GZIP: (aiokafka_codec.gzip_encode, aiokafka_codec.gzip_decode),
        Compression.SNAPPY: (aiokafka_codec.snappy_encode, aiokafka_codec.snappy_decode),
        Compression.LZ4: (aiokafka_codec.lz4_encode, aiokafka_codec.lz4_decode),
        Compression.ZSTD: (aiokafka_codec.zstd_encode, aiokafka_codec.zstd_decode),
    }
    for codec, (encode, decode) in theirs.items():
        compare_codec(suite, codec, text, encode, decode)


def compare_codec(
    suite: Suite,
    codec: Compression,
    text: bytes,
    encode: Callable[[bytes], object],
    decode: Callable[[bytes], object],
) -> None:
    packed = compress(codec, text)
    suite.compare(
        f"{codec.name.lower()} compress, 16 KB, each at its default level",
        ours=lambda: compress(codec, text),
        peers={"aiokafka": lambda: encode(text)},
    )
    suite.compare(
        f"{codec.name.lower()} decompress, 16 KB",
        ours=lambda: decompress(codec, packed),
        peers={"aiokafka": lambda: decode(packed)},
    )


if __name__ == "__main__":
    sys.exit(main())
