"""The compression codecs of record batches: what Java writes, and all that Java reads.

A batch arrives compressed from anyone who can connect, so `decompress` has a hard limit on the
size of its result, and that limit bounds the memory taken, not only the length returned. No
declared size is believed: output is produced in bounded pieces and counted, or the declared size
is first compared with the most that so many compressed bytes can possibly expand to.

Whatever a codec library raises becomes a `DecompressionError`; only our own types leave here.
"""

import struct
import zlib
from enum import IntEnum
from typing import Final

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import zstandard

from kafka_wire.errors import (
    DecompressionError,
    DecompressionLimitError,
    EncodeError,
    UnsupportedCompressionError,
)
from kafka_wire.types import Buffer

DEFAULT_MAX_SIZE_BYTES: Final = 128 * 1024 * 1024
"""Largest result of `decompress` unless the caller says otherwise.

Kafka has no such limit. This one is above its largest request (`socket.request.max.bytes`) and
equals the largest window that its zstd decoder accepts, so that no honest batch is refused.
"""


class Compression(IntEnum):
    """Compression types, numbered as in the attributes of a record batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of(cls, number: int) -> "Compression":
        """The type with this number; numbers that the protocol leaves undefined are refused."""
        if 0 <= number < len(_COMPRESSIONS):
            return _COMPRESSIONS[number]
        raise UnsupportedCompressionError(
            f"compression type {number} is unknown: use none, gzip, snappy, lz4 or zstd"
        )


_COMPRESSIONS: Final = tuple(Compression)


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """Compress as the Java producer does, so that every Kafka consumer can read the result.

    `level` is the codec library's own scale (KIP-390); None is Kafka's default. Snappy has no
    levels.
    """
    match codec:
        case Compression.NONE:
            _refuse_level(codec, level)
            return bytes(data)
        case Compression.GZIP:
            return _compress_gzip(data, level)
        case Compression.SNAPPY:
            _refuse_level(codec, level)
            return _compress_snappy(data)
        case Compression.LZ4:
            return _compress_lz4(data, level)
        case Compression.ZSTD:
            return _compress_zstd(data, level)


def decompress(
    codec: Compression, data: Buffer, max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES
) -> bytes:
    """The original bytes, or `DecompressionLimitError` as soon as they exceed the limit.

    Bytes behind the end of the compressed data are an error, though Java overlooks them behind
    gzip and lz4: what is not read should not be stored either.
    """
    match codec:
        case Compression.NONE:
            if len(data) > max_size_bytes:
                raise _too_large(codec, max_size_bytes)
            return bytes(data)
        case Compression.GZIP:
            return _decompress_gzip(memoryview(data), max_size_bytes)
        case Compression.SNAPPY:
            return _decompress_snappy(memoryview(data), max_size_bytes)
        case Compression.LZ4:
            return _decompress_lz4(memoryview(data), max_size_bytes)
        case Compression.ZSTD:
            return _decompress_zstd(memoryview(data), max_size_bytes)


def _too_large(codec: Compression, max_size_bytes: int) -> DecompressionLimitError:
    return DecompressionLimitError(
        f"{codec.name.lower()} data expands beyond the limit of {max_size_bytes} bytes: "
        "send smaller batches, or raise the limit"
    )


def _corrupt(codec: Compression, why: object) -> DecompressionError:
    return DecompressionError(f"{codec.name.lower()} data is damaged ({why}): compress it anew")


def _bad_level(codec: Compression, level: int | None, allowed: str) -> EncodeError:
    return EncodeError(f"{codec.name.lower()} has no compression level {level}: {allowed}")


def _refuse_level(codec: Compression, level: int | None) -> None:
    if level is not None:
        raise _bad_level(codec, level, "leave it out")


# --- gzip ---------------------------------------------------------------------------------------

_GZIP_WBITS: Final = 31
"""zlib's number for a gzip wrapper around the largest deflate window (32 KB)."""

_GZIP_INPUT_BYTES: Final = 64 * 1024
"""zlib copies the input that follows a member, so input is handed over in pieces: many tiny
members then cost a bounded copy each instead of a copy of all that is left."""


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    if level is None:
        level = zlib.Z_DEFAULT_COMPRESSION
    elif not 1 <= level <= 9:
        raise _bad_level(Compression.GZIP, level, "use 1 to 9")
    compressor = zlib.compressobj(level, zlib.DEFLATED, _GZIP_WBITS)
    return compressor.compress(data) + compressor.flush()


def _decompress_gzip(data: memoryview, max_size_bytes: int) -> bytes:
    """Inflate one or more members; as in Java, their contents are concatenated."""
    pieces: list[bytes] = []
    room = max_size_bytes
    member = None
    position = 0
    while position < len(data):
        if member is None or member.eof:
            member = zlib.decompressobj(_GZIP_WBITS)
        source = data[position : position + _GZIP_INPUT_BYTES]
        try:
            # zlib grows its output as it goes: the bound is a limit, not an allocation.
            piece = member.decompress(source, room + 1)
        except zlib.error as error:
            raise _corrupt(Compression.GZIP, error) from None
        room -= len(piece)
        if room < 0:
            raise _too_large(Compression.GZIP, max_size_bytes)
        pieces.append(piece)
        position += len(source) - len(member.unused_data)
    if member is None or not member.eof:
        raise _corrupt(Compression.GZIP, "it ends in the middle of a member")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


# --- snappy -------------------------------------------------------------------------------------

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
"""Uncompressed bytes per chunk; the default of the Java library."""

_SNAPPY_MAX_RATIO: Final = 22
"""The densest element of the format turns 3 bytes into 64."""

_CHUNK_LENGTH: Final = struct.Struct(">i")


def _compress_snappy(data: Buffer) -> bytes:
    """Snappy in the framing of xerial's Java library, which is what Kafka means by snappy."""
    view = memoryview(data)
    pieces: list[bytes] = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        chunk = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        pieces += (_CHUNK_LENGTH.pack(len(chunk)), chunk)
    return b"".join(pieces)


def _decompress_snappy(data: memoryview, max_size_bytes: int) -> bytes:
    """Java frames its chunks, most other clients send one raw block: the magic tells."""
    if _is_xerial(data, 0) and len(data) >= len(_XERIAL_HEADER):
        return _decompress_xerial(data, max_size_bytes)
    return _decompress_snappy_block(data, max_size_bytes, max_size_bytes)


def _is_xerial(data: memoryview, position: int) -> bool:
    return bytes(data[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC


def _decompress_xerial(data: memoryview, max_size_bytes: int) -> bytes:
    """Concatenate the chunks; a header between chunks starts a concatenated stream, as in Java.

    The version in the header is not checked: there is only one, and some brokers wrote it in the
    wrong byte order.
    """
    pieces: list[bytes] = []
    room = max_size_bytes
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if _is_xerial(data, position):
            position += len(_XERIAL_HEADER)
            if position > len(data):
                raise _corrupt(Compression.SNAPPY, "it ends in the middle of a header")
            continue
        start = position + _CHUNK_LENGTH.size
        if start > len(data):
            raise _corrupt(Compression.SNAPPY, "it ends in the middle of a chunk length")
        (length,) = _CHUNK_LENGTH.unpack_from(data, position)
        position = start + length
        if length < 0 or position > len(data):
            raise _corrupt(Compression.SNAPPY, f"a chunk of {length} bytes does not fit")
        piece = _decompress_snappy_block(data[start:position], room, max_size_bytes)
        room -= len(piece)
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _decompress_snappy_block(block: memoryview, room: int, max_size_bytes: int) -> bytes:
    try:
        declared = cramjam.snappy.decompress_raw_len(block)
        # The library takes as much memory as the block declares, so the claim is checked first.
        if declared > len(block) * _SNAPPY_MAX_RATIO:
            raise _corrupt(
                Compression.SNAPPY, f"{len(block)} bytes cannot expand to the declared {declared}"
            )
        if declared > room:
            raise _too_large(Compression.SNAPPY, max_size_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _corrupt(Compression.SNAPPY, error) from None


# --- lz4 ----------------------------------------------------------------------------------------

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_FLAGS_AT: Final = 4
_LZ4_INDEPENDENT_BLOCKS: Final = 0x20
_LZ4_RESERVED_FLAGS: Final = 0x03
"""The lowest bit has since become "has a dictionary", which Kafka never uses."""

_OUTPUT_BYTES: Final = 1024 * 1024
_MIN_OUTPUT_BYTES: Final = 64 * 1024
"""How much output is asked of a decoder at a time, according to the size of the input."""


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    """One frame of independent 64 KB blocks (KIP-57): Java cannot read linked blocks."""
    if level is None:
        level = 0
    elif not 0 <= level <= 16:
        raise _bad_level(Compression.LZ4, level, "use 0 to 16")
    return bytes(
        lz4.frame.compress(
            data,
            compression_level=level,
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
    )


def _decompress_lz4(data: memoryview, max_size_bytes: int) -> bytes:
    """One frame, and nothing else: Java does not know concatenated or skippable frames."""
    if len(data) <= _LZ4_FLAGS_AT or bytes(data[:_LZ4_FLAGS_AT]) != _LZ4_MAGIC:
        raise _corrupt(Compression.LZ4, "it does not start with a frame")
    flags = data[_LZ4_FLAGS_AT]
    if not flags & _LZ4_INDEPENDENT_BLOCKS or flags & _LZ4_RESERVED_FLAGS:
        raise _corrupt(Compression.LZ4, "Kafka allows independent blocks without dictionary only")
    context = lz4.frame.create_decompression_context()
    step = min(max(_MIN_OUTPUT_BYTES, 4 * len(data)), _OUTPUT_BYTES)
    pieces: list[bytes] = []
    room = max_size_bytes
    position = 0
    at_end = False
    while not at_end:
        try:
            piece, consumed, at_end = lz4.frame.decompress_chunk(
                context, data[position:], max_length=min(step, room + 1)
            )
        except RuntimeError as error:
            raise _corrupt(Compression.LZ4, error) from None
        room -= len(piece)
        if room < 0:
            raise _too_large(Compression.LZ4, max_size_bytes)
        if not at_end and not consumed and not piece:
            raise _corrupt(Compression.LZ4, "it ends in the middle of a frame")
        position += consumed
        pieces.append(piece)
    if position != len(data):
        raise _corrupt(Compression.LZ4, f"{len(data) - position} bytes follow the frame")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


# --- zstd ---------------------------------------------------------------------------------------

_ZSTD_MIN_WINDOW_LIMIT_BYTES: Final = 8 * 1024 * 1024
"""A decoder should accept windows up to this size, says RFC 8878."""

_ZSTD_MAX_BLOCK_BYTES: Final = 128 * 1024
_ZSTD_SKIPPABLE_MAGIC: Final = 0x184D2A50
_ZSTD_CHECKSUM_BYTES: Final = 4
_ZSTD_MAX_HEADER_BYTES: Final = 18
_ZSTD_FRAME_START: Final = struct.Struct("<II")
_ZSTD_RLE_BLOCK: Final = 1
_ZSTD_COMPRESSED_BLOCK: Final = 2


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    if level is None:
        level = 3
    elif not 1 <= level <= zstandard.MAX_COMPRESSION_LEVEL:
        raise _bad_level(Compression.ZSTD, level, f"use 1 to {zstandard.MAX_COMPRESSION_LEVEL}")
    return zstandard.ZstdCompressor(level=level).compress(data)


def _decompress_zstd(data: memoryview, max_size_bytes: int) -> bytes:
    """Concatenate the frames, skipping skippable ones, as the Java library does."""
    if not data:
        raise _corrupt(Compression.ZSTD, "it is empty")
    window_limit = max(_ZSTD_MIN_WINDOW_LIMIT_BYTES, max_size_bytes)
    decoder = zstandard.ZstdDecompressor(max_window_size=window_limit)
    pieces: list[bytes] = []
    room = max_size_bytes
    position = 0
    try:
        while position < len(data):
            start, position, bound = position, *_measure_zstd_frame(data, position, window_limit)
            if bound is None:
                continue
            reader = decoder.stream_reader(data[start:position])
            step = min(bound, room, _OUTPUT_BYTES) + 1
            while True:
                piece = reader.read(step)
                room -= len(piece)
                if room < 0:
                    raise _too_large(Compression.ZSTD, max_size_bytes)
                pieces.append(piece)
                if len(piece) < step:  # the end is reached, and the checksum compared
                    break
    except zstandard.ZstdError as error:
        raise _corrupt(Compression.ZSTD, error) from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _measure_zstd_frame(data: memoryview, start: int, window_limit: int) -> tuple[int, int | None]:
    """Where the frame at `start` ends, and the most it can expand to (None: skippable).

    The library's stream reader takes a frame that was cut short for a complete one, and takes the
    memory that a header asks for. Walking over the blocks' lengths settles both beforehand.
    """
    cut_short = _corrupt(Compression.ZSTD, "it ends in the middle of a frame")
    if start + 8 > len(data):
        raise cut_short
    magic, skippable_bytes = _ZSTD_FRAME_START.unpack_from(data, start)
    if magic & 0xFFFFFFF0 == _ZSTD_SKIPPABLE_MAGIC:
        end = start + _ZSTD_FRAME_START.size + skippable_bytes
        if end > len(data):
            raise cut_short
        return end, None

    header = data[start : start + _ZSTD_MAX_HEADER_BYTES]
    parameters = zstandard.get_frame_parameters(header)
    position = start + zstandard.frame_header_size(header)
    block_limit = min(parameters.window_size, _ZSTD_MAX_BLOCK_BYTES)
    bound = 0
    is_last = False
    while not is_last:
        block = int.from_bytes(data[position : position + 3], "little")
        is_last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        bound += block_limit if kind == _ZSTD_COMPRESSED_BLOCK else size
        position += 3 + (1 if kind == _ZSTD_RLE_BLOCK else size)
        if position > len(data):
            raise cut_short
    if parameters.has_checksum:
        position += _ZSTD_CHECKSUM_BYTES
    if position > len(data):
        raise cut_short

    declared = parameters.content_size
    if declared != zstandard.CONTENTSIZE_UNKNOWN:
        if declared > bound:
            raise _corrupt(
                Compression.ZSTD, f"its blocks cannot hold the declared {declared} bytes"
            )
        bound = declared
    if parameters.window_size > window_limit:
        raise DecompressionLimitError(
            f"zstd data needs a window of {parameters.window_size} bytes, the limit is "
            f"{window_limit}: compress with a lower level, or raise the limit"
        )
    return position, bound
