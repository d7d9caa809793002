"""The file `partition.metadata`: which topic a directory belongs to, by its id (KIP-516).

A topic that is deleted and made again has the same name and another id; without this file its new
partitions would take up the old records.
"""

import base64
import binascii
from typing import Final

from log.errors import DamagedFileError
from log.filesystem import FileSystem
from log.flush import read_file, write_safely
from log.names import PARTITION_METADATA

_VERSION: Final = "0"
UUID_BYTES: Final = 16


def write_topic_id(filesystem: FileSystem, directory: str, topic_id: bytes) -> None:
    text = base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()
    data = f"version: {_VERSION}\ntopic_id: {text}\n".encode()
    write_safely(filesystem, directory, PARTITION_METADATA, data)


def read_topic_id(filesystem: FileSystem, directory: str) -> bytes | None:
    """The topic's id, or None for a directory from before there were any."""
    path = f"{directory}/{PARTITION_METADATA}"
    if not filesystem.exists(path):
        return None
    try:
        lines = read_file(filesystem, path).decode("ascii").splitlines()
        fields = dict(line.split(": ", 1) for line in lines)
        if fields["version"] != _VERSION:
            raise ValueError(f"version {fields['version']} is not known")
        topic_id = base64.urlsafe_b64decode(fields["topic_id"] + "==")
        if len(topic_id) != UUID_BYTES:
            raise ValueError(f"a topic id of {len(topic_id)} bytes")
    except (ValueError, KeyError, binascii.Error) as error:
        raise DamagedFileError(path, f"not partition metadata: {error}") from None
    return topic_id
