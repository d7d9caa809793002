"""The file `partition.metadata`: which topic a directory belongs to, by its id (KIP-516).

A topic that is deleted and made again has the same name and another id; without this file its new
partitions would take up the old records.
"""

import base64
from typing import Final

from log.errors import DamagedFileError
from log.filesystem import FileSystem
from log.flush import read_file, write_safely
from log.names import PARTITION_METADATA
from log.text_file import text_of

_KIND: Final = "not partition metadata"
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
    fields: dict[str, str] = {}
    for line in text_of(read_file(filesystem, path), path, kind=_KIND).splitlines():
        name, separator, value = line.partition(": ")
        if not separator:
            raise DamagedFileError(path, f"{_KIND}: a line is not 'name: value'")
        fields[name] = value
    for name in ("version", "topic_id"):
        if name not in fields:
            raise DamagedFileError(path, f"{_KIND}: it has no {name}")
    if fields["version"] != _VERSION:
        raise DamagedFileError(path, f"{_KIND}: version {fields['version']} is not known")
    try:
        topic_id = base64.urlsafe_b64decode(fields["topic_id"] + "==")
    except ValueError:
        raise DamagedFileError(path, f"{_KIND}: the topic id is no base64") from None
    if len(topic_id) != UUID_BYTES:
        raise DamagedFileError(path, f"{_KIND}: a topic id of {len(topic_id)} bytes")
    return topic_id
