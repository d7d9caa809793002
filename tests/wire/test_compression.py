"""Compression: what others wrote we read, what we wrote they read, and bombs do not go off."""

import gzip
import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_wire.compression import Compression, compress, decompress
from kafka_wire.errors import (
    DecompressionError,
    DecompressionLimitError,
    EncodeError,
    UnsupportedCompressionError,
)
from tests.wire.other_clients import aiokafka_codec, kafka_python_codec

GZIP, SNAPPY, LZ4, ZSTD = list(Compression)[1:]
CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
TYPED = (DecompressionError, DecompressionLimitError)

TEXT = b"".join(b"the flood of %d left its mark; " % year for year in range(500))
payloads = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda data, n: data * n, st.binary(min_size=1, max_size=40), st.integers(1, 5000)),
)


def zstd_stream(data: bytes, level: int = 3) -> bytes:
    """As Java writes it: the content's size is not in the header."""
    compressor = zstandard.ZstdCompressor(level=level).compressobj()
    return compressor.compress(data) + compressor.flush()


DecodeWith = Callable[[bytes], bytes]
OTHERS_READ: list[tuple[Compression, DecodeWith]] = [
    (GZIP, gzip.decompress),
    (GZIP, aiokafka_codec.gzip_decode),
    (GZIP, kafka_python_codec.gzip_decode),
    (SNAPPY, aiokafka_codec.snappy_decode),
    (SNAPPY, kafka_python_codec.snappy_decode),
    (LZ4, aiokafka_codec.lz4_decode),
    (LZ4, kafka_python_codec.lz4_decode),
    (ZSTD, aiokafka_codec.zstd_decode),
    (ZSTD, kafka_python_codec.zstd_decode),
]
OTHERS_WRITE: list[tuple[Compression, DecodeWith]] = [
    (GZIP, gzip.compress),
    (GZIP, aiokafka_codec.gzip_encode),
    (SNAPPY, aiokafka_codec.snappy_encode),
    (SNAPPY, kafka_python_codec.snappy_encode),
    (SNAPPY, lambda data: aiokafka_codec.snappy_encode(data, xerial_compatible=False)),
    (LZ4, aiokafka_codec.lz4_encode),
    (LZ4, kafka_python_codec.lz4_encode),
    (LZ4, lambda data: lz4.frame.compress(data, block_linked=False, content_checksum=True)),
    (ZSTD, aiokafka_codec.zstd_encode),
    (ZSTD, kafka_python_codec.zstd_encode),
    (ZSTD, zstd_stream),
    (ZSTD, lambda data: zstd_stream(data, level=19)),
]


@pytest.mark.parametrize("codec", Compression)
@given(data=payloads)
@settings(max_examples=40)
def test_decompress_reverts_compress_and_the_limit_is_exact(
    codec: Compression, data: bytes
) -> None:
    compressed = compress(codec, data)
    assert decompress(codec, memoryview(compressed), len(data)) == data
    if data:
        with pytest.raises(DecompressionLimitError):
            decompress(codec, compressed, len(data) - 1)


@pytest.mark.parametrize(("codec", "read"), OTHERS_READ)
@pytest.mark.parametrize("data", [b"a", TEXT, TEXT * 30])
def test_other_clients_read_what_we_compress(
    codec: Compression, read: DecodeWith, data: bytes
) -> None:
    assert read(compress(codec, data)) == data


@pytest.mark.parametrize(("codec", "write"), OTHERS_WRITE)
@pytest.mark.parametrize("data", [b"a", TEXT, TEXT * 30])
def test_we_read_what_other_clients_compress(
    codec: Compression, write: DecodeWith, data: bytes
) -> None:
    assert decompress(codec, write(data), len(data)) == data


def test_snappy_is_written_in_the_framing_of_the_java_library() -> None:
    compressed = compress(SNAPPY, bytes(40_000))
    assert compressed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    (length,) = struct.unpack_from(">i", compressed, 16)
    assert len(cramjam.snappy.decompress_raw(compressed[20 : 20 + length])) == 32 * 1024


def test_lz4_is_written_as_java_can_read_it() -> None:
    info = lz4.frame.get_frame_info(compress(LZ4, TEXT * 30))
    assert not info["block_linked"]
    assert not info["content_checksum"]
    assert info["block_size"] == 64 * 1024
    assert info["content_size"] == 0


def test_concatenated_members_and_frames_are_read_as_one() -> None:
    for codec in (GZIP, SNAPPY, ZSTD):
        parts = compress(codec, TEXT) + compress(codec, b"") + compress(codec, b"end")
        assert decompress(codec, parts) == TEXT + b"end", codec
        with pytest.raises(DecompressionLimitError):
            decompress(codec, parts, len(TEXT) + 2)


def test_skippable_zstd_frames_are_skipped() -> None:
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"hello"
    assert decompress(ZSTD, skippable + compress(ZSTD, TEXT) + skippable) == TEXT
    with pytest.raises(DecompressionError):
        decompress(ZSTD, compress(ZSTD, TEXT) + skippable[:-1])


def test_xerial_version_in_the_wrong_byte_order_is_read() -> None:
    compressed = compress(SNAPPY, TEXT)
    swapped = compressed[:8] + struct.pack("<ii", 1, 1) + compressed[16:]
    assert decompress(SNAPPY, swapped) == TEXT


def test_xerial_chunk_that_announces_more_than_there_is_is_refused() -> None:
    compressed = bytearray(compress(SNAPPY, b"flood"))
    compressed[19] += 1
    with pytest.raises(DecompressionError):
        decompress(SNAPPY, compressed)


@pytest.mark.parametrize(
    "frame",
    [
        lz4.frame.compress(TEXT * 10, block_linked=True),
        compress(LZ4, TEXT) + compress(LZ4, TEXT),
        struct.pack("<II", 0x184D2A53, 5) + b"hello" + compress(LZ4, TEXT),
    ],
    ids=["linked blocks", "two frames", "skippable frame"],
)
def test_lz4_that_java_cannot_read_is_refused(frame: bytes) -> None:
    with pytest.raises(DecompressionError):
        decompress(LZ4, frame)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("tail", [b"\x00", b"garbage", bytes(64)])
def test_bytes_behind_the_compressed_data_are_refused(codec: Compression, tail: bytes) -> None:
    with pytest.raises(DecompressionError):
        decompress(codec, compress(codec, TEXT) + tail)


@pytest.mark.parametrize("codec", CODECS)
def test_data_cut_anywhere_is_refused(codec: Compression) -> None:
    compressed = compress(codec, TEXT[:2000])
    empty_stream = 16 if codec is SNAPPY else None  # a xerial header alone: nothing follows
    for size in range(len(compressed)):
        if size != empty_stream:
            with pytest.raises(DecompressionError):
                decompress(codec, compressed[:size])


@pytest.mark.parametrize("codec", CODECS)
def test_flipped_bits_raise_only_typed_errors(codec: Compression) -> None:
    compressed = compress(codec, TEXT[:1500])
    for bit in range(len(compressed) * 8):
        damaged = bytearray(compressed)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            assert len(decompress(codec, damaged, 100_000)) <= 100_000
        except TYPED:
            continue


@pytest.mark.parametrize("codec", CODECS)
@given(tail=st.binary(max_size=60), keep=st.integers(0, 24))
def test_random_bytes_raise_only_typed_errors(codec: Compression, tail: bytes, keep: int) -> None:
    data = compress(codec, b"begin")[:keep] + tail
    try:
        assert len(decompress(codec, data, 10_000)) <= 10_000
    except TYPED:
        return


def test_checksum_inside_a_zstd_frame_is_compared() -> None:
    compressed = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(TEXT))
    assert decompress(ZSTD, compressed) == TEXT
    compressed[-1] ^= 1
    with pytest.raises(DecompressionError):
        decompress(ZSTD, compressed)


def test_undefined_types_and_levels_are_refused() -> None:
    for number in (-1, 5, 7):
        with pytest.raises(UnsupportedCompressionError):
            Compression.of(number)
    assert Compression.of(4) is ZSTD
    for codec, level in [(GZIP, 0), (GZIP, 10), (LZ4, 17), (LZ4, -1), (ZSTD, 23), (SNAPPY, 1)]:
        with pytest.raises(EncodeError):
            compress(codec, TEXT, level)


@pytest.mark.parametrize(("codec", "level"), [(GZIP, 9), (LZ4, 12), (ZSTD, 22)])
def test_levels_have_an_effect_and_are_read(codec: Compression, level: int) -> None:
    compressed = compress(codec, TEXT, level)
    assert compressed != compress(codec, TEXT)
    assert decompress(codec, compressed) == TEXT


# --- bombs --------------------------------------------------------------------------------------

MEGABYTE = 1024 * 1024


def gzip_bomb() -> bytes:
    """One member: a deflate block that ends with a full flush can be repeated."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = compressor.compress(bytes(MEGABYTE)) + compressor.flush(zlib.Z_FULL_FLUSH)
    block = compressor.compress(bytes(MEGABYTE)) + compressor.flush(zlib.Z_FULL_FLUSH)
    return head + block * 2000


def gzip_members_bomb() -> bytes:
    return gzip.compress(bytes(MEGABYTE)) * 2000


def snappy_varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def lz4_bomb() -> bytes:
    """Independent blocks can be repeated."""
    one = lz4.frame.compress(
        bytes(4 * MEGABYTE),
        block_size=lz4.frame.BLOCKSIZE_MAX4MB,
        block_linked=False,
        store_size=False,
    )
    return bytes(one[:7] + one[7:-4] * 500 + bytes(4))


def lz4_declaring(size: int) -> bytes:
    context = lz4.frame.create_compression_context()
    head = lz4.frame.compress_begin(context, source_size=size, block_linked=False)
    return bytes(head + lz4.frame.compress_chunk(context, bytes(99)) + bytes(4))


def zstd_bomb() -> bytes:
    """Blocks that repeat one byte 128 K times, in a frame of unknown size with a 1 MB window."""
    block = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"x"
    return b"\x28\xb5\x2f\xfd\x00" + bytes([10 << 3]) + block * 16_000 + b"\x01\x00\x00"


def zstd_window(log2: int) -> bytes:
    """A small frame that asks for a large window."""
    return b"\x28\xb5\x2f\xfd\x00" + bytes([log2 - 10 << 3]) + b"\x29\x00\x00hello"


def zstd_declaring(size: int) -> bytes:
    """A single segment, whose window is as large as its declared content."""
    return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", size) + b"\x29\x00\x00hello"


BOMBS: dict[str, tuple[Compression, Callable[[], bytes]]] = {
    "gzip": (GZIP, gzip_bomb),
    "gzip members": (GZIP, gzip_members_bomb),
    "snappy": (SNAPPY, lambda: bytes(cramjam.snappy.compress_raw(bytes(64 * MEGABYTE)))),
    "snappy declares 4 GB": (SNAPPY, lambda: snappy_varint(2**32 - 1) + b"\x00x"),
    "snappy declares 256 MB": (SNAPPY, lambda: snappy_varint(2**28) + bytes(2**28 // 22 + 1)),
    "xerial chunk declares 4 GB": (
        SNAPPY,
        lambda: compress(SNAPPY, b"") + struct.pack(">i", 7) + snappy_varint(2**32 - 1) + b"\x00x",
    ),
    "xerial chunks": (
        SNAPPY,
        lambda: compress(SNAPPY, b"") + compress(SNAPPY, bytes(32 * 1024))[16:] * 20_000,
    ),
    "xerial chunk of 2 GB": (SNAPPY, lambda: compress(SNAPPY, b"") + struct.pack(">i", 2**31 - 1)),
    "xerial chunk of -1": (SNAPPY, lambda: compress(SNAPPY, b"") + struct.pack(">i", -1) + b"xx"),
    "lz4": (LZ4, lz4_bomb),
    "lz4 declares 1 TB": (LZ4, lambda: lz4_declaring(2**40)),
    "zstd": (ZSTD, zstd_bomb),
    "zstd honest size": (ZSTD, lambda: zstandard.compress(bytes(256 * MEGABYTE))),
    "zstd declares 1 TB": (ZSTD, lambda: zstd_declaring(2**40)),
    "zstd declares 2^64-2": (ZSTD, lambda: zstd_declaring(2**64 - 2)),
    "zstd window of 2 GB": (ZSTD, lambda: zstd_window(31)),
    "zstd window of 16 MB": (ZSTD, lambda: zstd_window(24)),
}

DEFUSE = """
import json, pathlib, resource, sys
from kafka_wire.compression import Compression, decompress
from kafka_wire.errors import DecompressionError, DecompressionLimitError

LIMIT = 1024 * 1024
# Room for a decoder's own state (zstd: a window of 8 MB), the result and its pieces.
ALLOWANCE = 24 * 1024 * 1024

def resident():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

verdicts = {}
for codec in Compression:
    try:
        decompress(codec, b"x", LIMIT)
    except DecompressionError:
        pass
for number, path in [(int(a), pathlib.Path(b)) for a, b in json.loads(sys.argv[1])]:
    data = path.read_bytes()
    before = resident()
    virtual = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (virtual + ALLOWANCE, resource.RLIM_INFINITY))
    try:
        verdict = f"no error: {len(decompress(Compression(number), data, LIMIT))} bytes"
    except (DecompressionError, DecompressionLimitError) as error:
        verdict = type(error).__name__
    except BaseException as error:
        verdict = repr(error)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    verdicts[path.name] = [verdict, resident() - before]
    del data
print(json.dumps(verdicts))
"""
"""Runs in a process of its own: a limit on its address space catches what a codec library takes,
touched or not, and its peak of resident memory is not somebody else's."""

ARE_CORRUPT = {
    "snappy declares 4 GB",
    "xerial chunk declares 4 GB",
    "xerial chunk of 2 GB",
    "xerial chunk of -1",
    "lz4 declares 1 TB",
    "zstd declares 1 TB",
    "zstd declares 2^64-2",
}
"""Lies that are found out as such; all others are recognised by the limit."""


def test_bombs_are_refused_in_bounded_memory(tmp_path: Path) -> None:
    bombs = []
    for name, (codec, make) in BOMBS.items():
        (tmp_path / name).write_bytes(make())
        bombs.append((int(codec), str(tmp_path / name)))
    result = subprocess.run(
        [sys.executable, "-c", DEFUSE, json.dumps(bombs)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    verdicts = json.loads(result.stdout)
    expected = {
        name: "DecompressionError" if name in ARE_CORRUPT else "DecompressionLimitError"
        for name in BOMBS
    }
    assert {name: verdict for name, (verdict, _) in verdicts.items()} == expected
    grown = {name: size for name, (_, size) in verdicts.items() if size > 16 * MEGABYTE}
    assert not grown


def test_zstd_window_up_to_the_limit_is_accepted() -> None:
    assert decompress(ZSTD, zstd_window(23), 5) == b"hello"
    assert decompress(ZSTD, zstd_window(27)) == b"hello"
    with pytest.raises(DecompressionLimitError):
        decompress(ZSTD, zstd_window(28))
