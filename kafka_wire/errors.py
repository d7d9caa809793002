"""What can go wrong between bytes and messages.

Every failure of this package to read or write the wire is a `WireError`: a caller that
catches it has caught all of them, and never sees an exception of a codec library. Each class
names in `code` the error code with which Kafka answers such a problem.
"""

from typing import ClassVar

from kafka_wire.error_codes import ErrorCode


class WireError(ValueError):
    """Bytes that cannot be read, or values that cannot be written."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


class DecodeError(WireError):
    """The received bytes are not a valid message: the sender, or the network, is at fault."""

    code = ErrorCode.INVALID_REQUEST


class EncodeError(WireError):
    """A value does not fit the wire format: the caller is at fault."""

    code = ErrorCode.INVALID_REQUEST


class FrameSizeError(DecodeError):
    """A frame announces a length that is negative or above the limit.

    Nothing after such a length can be trusted to be a frame, so the connection must be closed.
    """

    code = ErrorCode.INVALID_REQUEST


class CorruptBatchError(DecodeError):
    """A record batch whose bytes contradict its length or its checksum."""

    code = ErrorCode.CORRUPT_MESSAGE


class MalformedBatchError(CorruptBatchError):
    """A record batch that is intact by its checksum, and yet contradicts itself.

    Its writer made it so; sending it again would not help, hence not the retriable code.
    """

    code = ErrorCode.INVALID_RECORD


class InvalidBatchError(DecodeError):
    """A well-formed record batch that no client may send, such as one without records."""

    code = ErrorCode.INVALID_RECORD


class InvalidTimestampError(InvalidBatchError):
    """A record batch whose timestamps a client may not send."""

    code = ErrorCode.INVALID_TIMESTAMP


class UnsupportedMagicError(InvalidBatchError):
    """Records in message format 0 or 1, which Kafka 4 no longer accepts (KIP-724)."""


class UnsupportedCompressionError(DecodeError):
    """A compression type that the protocol does not define."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class DecompressionError(DecodeError):
    """Compressed bytes that are damaged, cut short, or followed by something else."""

    code = ErrorCode.INVALID_RECORD


class DecompressionLimitError(DecodeError):
    """Compressed bytes that would take more memory than the caller allows (a bomb, perhaps)."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class UnsupportedVersionError(WireError):
    """A version of a message that the codec does not have."""

    code = ErrorCode.UNSUPPORTED_VERSION


class UnknownApiKeyError(DecodeError):
    """A request with an API key for which there is no message here.

    What follows the key cannot be read, so the connection must be closed, as Kafka does.
    """

    code = ErrorCode.INVALID_REQUEST
