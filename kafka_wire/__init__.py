"""The Kafka protocol as a library: messages, record batches, framing, error codes. No IO.

Everything here works on bytes. `kafka_wire.client` adds thin clients, blocking and asyncio;
`kafka_wire.messages` holds the requests and responses, a module per API.
"""

from kafka_wire.api_keys import ApiKey
from kafka_wire.compression import Compression
from kafka_wire.error_codes import ErrorCode, KafkaError
from kafka_wire.errors import DecodeError, EncodeError, UnsupportedVersionError, WireError
from kafka_wire.framing import FrameReader, frame
from kafka_wire.messages import REQUESTS, RESPONSES
from kafka_wire.protocol import (
    RequestHeader,
    ResponseHeader,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from kafka_wire.records import (
    BatchBuilder,
    BatchHeader,
    Record,
    build_batch,
    iter_records,
    validate_batch,
)
from kafka_wire.schema import Message, Request, Response, Struct
from kafka_wire.types import Offset, TopicPartition

__version__ = "0.1.0"

__all__ = [
    "REQUESTS",
    "RESPONSES",
    "ApiKey",
    "BatchBuilder",
    "BatchHeader",
    "Compression",
    "DecodeError",
    "EncodeError",
    "ErrorCode",
    "FrameReader",
    "KafkaError",
    "Message",
    "Offset",
    "Record",
    "Request",
    "RequestHeader",
    "Response",
    "ResponseHeader",
    "Struct",
    "TopicPartition",
    "UnsupportedVersionError",
    "WireError",
    "build_batch",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "encode_request",
    "encode_response",
    "frame",
    "iter_records",
    "validate_batch",
]
