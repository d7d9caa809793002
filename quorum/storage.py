"""A node's metadata directory: who it belongs to, written once and checked at every start.

`meta.properties` holds Kafka's keys: the cluster, the node, and an id of the directory itself. A
voter must never start on a directory that it has not been given: it would have forgotten its votes
and its log, and could help to elect a leader that lacks committed records. So a directory is made
a voter's by `floodmark storage format`, once, and an empty one is refused at start.

Formatting survives a crash at any point. A marker says that it is under way; then come the journal
and `meta.properties`, and the marker goes. What a crash leaves beside the marker is nobody's yet,
so the next attempt may throw it away.
"""

import base64
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from floodmark.errors import UserError
from floodmark.properties import PropertiesError, format_properties, parse_properties
from log.filesystem import File, FileSystem
from log.flush import read_file, write_safely
from log.names import TEMPORARY

META_PROPERTIES: Final = "meta.properties"
VOTERS: Final = "voters"
LOCK: Final = ".lock"
FORMATTING: Final = "formatting"
VERSION: Final = "1"
MOST_CLUSTER_ID: Final = 128

_UUID_BYTES: Final = 16
_RESERVED_UUIDS: Final = 100
"""Kafka keeps the first hundred ids for meanings of its own."""
_NOT_OURS: Final = (LOCK, "lost+found")
"""What may be in a directory that is still empty."""

CreateJournal: TypeAlias = Callable[[FileSystem, str], None]
JournalExists: TypeAlias = Callable[[FileSystem, str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """What a formatted directory says of itself."""

    cluster_id: str
    node_id: int
    directory_id: str


def random_uuid() -> str:
    """A new id as Kafka writes it: 16 bytes in URL-safe base64, no option to a command line."""
    while True:
        data = uuid.uuid4().bytes
        text = base64.urlsafe_b64encode(data).rstrip(b"=").decode()
        if not text.startswith("-") and int.from_bytes(data, "big") >= _RESERVED_UUIDS:
            return text


def format_storage(
    filesystem: FileSystem,
    directory: str,
    *,
    node_id: int,
    cluster_id: str,
    create_journal: CreateJournal,
    ignore_formatted: bool = False,
) -> MetaProperties:
    """Makes an empty directory a node's. What is formatted already is left as it is, or refused."""
    _check_ids(node_id, cluster_id)
    _make_directories(filesystem, directory)
    lock = lock_storage(filesystem, directory)
    try:
        if filesystem.exists(f"{directory}/{META_PROPERTIES}"):
            found = _read(filesystem, directory)
            if not ignore_formatted:
                raise UserError(
                    f"{directory} is formatted already, for node {found.node_id}"
                    f" of cluster {found.cluster_id}",
                    "say --ignore-formatted to leave it as it is",
                )
            _check_same(directory, found, node_id=node_id, cluster_id=cluster_id)
            _end_formatting(filesystem, directory)
            return found
        _begin_formatting(filesystem, directory)
        create_journal(filesystem, directory)
        made = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=random_uuid())
        write_safely(filesystem, directory, META_PROPERTIES, _encode(made))
        _end_formatting(filesystem, directory)
        return made
    finally:
        lock.close()


def open_storage(
    filesystem: FileSystem,
    directory: str,
    *,
    node_id: int,
    cluster_id: str | None = None,
    journal_exists: JournalExists | None = None,
) -> MetaProperties:
    """What the directory says of itself, if it is this node's; a `UserError` if it is not."""
    if not filesystem.exists(f"{directory}/{META_PROPERTIES}"):
        state = "is not formatted"
        if filesystem.exists(f"{directory}/{FORMATTING}"):
            state = "is formatted only in part"
        command = f"floodmark storage format --data-dir {directory} --node-id {node_id}"
        raise UserError(
            f"{directory} {state}",
            f"if this node is new run '{command} --cluster-id {cluster_id or 'ID'}'; if it is not,"
            " put its disk back, or see 'floodmark quorum recover --help' (an empty disk has"
            " forgotten its votes)",
        )
    found = _read(filesystem, directory)
    _check_same(directory, found, node_id=node_id, cluster_id=cluster_id)
    if journal_exists is not None and not journal_exists(filesystem, directory):
        raise UserError(
            f"{directory} is formatted and has no journal: this voter has lost what it promised",
            "put its disk back, or see 'floodmark quorum recover --help'",
        )
    # From now on the directory holds what nobody may throw away.
    _end_formatting(filesystem, directory)
    return found


def check_voters(filesystem: FileSystem, directory: str, voter_ids: Sequence[int]) -> None:
    """Refuses other voters than those that the directory's log was made by.

    Two sets of voters that do not know of each other could both have a majority. The first start
    writes down who they are.
    """
    voters = ",".join(map(str, sorted(voter_ids)))
    path = f"{directory}/{VOTERS}"
    if not filesystem.exists(path):
        write_safely(filesystem, directory, VOTERS, voters.encode())
        return
    before = read_file(filesystem, path).decode(errors="replace")
    if before != voters:
        raise UserError(
            f"{directory} is of a quorum of the voters {before}, not {voters}",
            "the voters of a quorum are fixed when it begins: correct controller.quorum.voters",
        )


def read_storage(filesystem: FileSystem, directory: str) -> MetaProperties | None:
    """What the directory says of itself, whoever asks; None if it is not formatted."""
    if not filesystem.exists(f"{directory}/{META_PROPERTIES}"):
        return None
    return _read(filesystem, directory)


def lock_storage(filesystem: FileSystem, directory: str) -> File:
    """Keeps other processes out of the directory until the file is closed."""
    try:
        return filesystem.lock(f"{directory}/{LOCK}")
    except BlockingIOError:
        raise UserError(
            f"{directory} is in use by another process", "stop that one, or use another directory"
        ) from None


# ---------------------------------------------------------------------------------------- the file


def _encode(meta: MetaProperties) -> bytes:
    values = {
        "cluster.id": meta.cluster_id,
        "directory.id": meta.directory_id,
        "node.id": str(meta.node_id),
        "version": VERSION,
    }
    return format_properties(values).encode()


def _read(filesystem: FileSystem, directory: str) -> MetaProperties:
    path = f"{directory}/{META_PROPERTIES}"
    try:
        values = parse_properties(read_file(filesystem, path).decode())
    except (PropertiesError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from None
    for key in ("version", "cluster.id", "node.id", "directory.id"):
        if not values.get(key):
            raise _damaged(path, f"it has no {key}")
    if values["version"] != VERSION:
        raise _damaged(path, f"version {values['version']} is not known")
    node_id = values["node.id"]
    if not (node_id.isascii() and node_id.isdigit()):
        raise _damaged(path, f"node.id is {node_id!r}")
    return MetaProperties(
        cluster_id=values["cluster.id"], node_id=int(node_id), directory_id=values["directory.id"]
    )


def _damaged(path: str, why: str) -> UserError:
    return UserError(f"{path} is damaged: {why}", "put it back from a copy")


def _check_same(
    directory: str, found: MetaProperties, *, node_id: int, cluster_id: str | None
) -> None:
    if found.node_id != node_id:
        raise UserError(
            f"{directory} belongs to node {found.node_id}, not to node {node_id}",
            "correct node.id or the directory",
        )
    if cluster_id is not None and found.cluster_id != cluster_id:
        raise UserError(
            f"{directory} belongs to cluster {found.cluster_id}, not to cluster {cluster_id}",
            "correct cluster.id or the directory",
        )


def _check_ids(node_id: int, cluster_id: str) -> None:
    if node_id < 0:
        raise UserError(f"node.id cannot be {node_id}", "use 0 or more")
    is_plain = cluster_id.isascii() and cluster_id.isprintable() and " " not in cluster_id
    if not cluster_id or not is_plain or len(cluster_id) > MOST_CLUSTER_ID:
        remedy = "make one with 'floodmark storage random-uuid'"
        raise UserError(f"{cluster_id!r} cannot be a cluster's id", remedy)


# -------------------------------------------------------------------------------------- formatting


def _begin_formatting(filesystem: FileSystem, directory: str) -> None:
    """Leaves the marker alone in the directory; refuses if anything there is somebody's."""
    names = [e.name for e in filesystem.list(directory) if e.name not in _NOT_OURS]
    marker = f"{FORMATTING}{TEMPORARY}"
    if FORMATTING not in names:
        # The marker itself may have been cut short by a crash: then there is nothing else.
        foreign = [name for name in names if name != marker]
        if foreign:
            raise UserError(
                f"{directory} is not formatted and not empty: it has {foreign[0]}",
                "name an empty directory",
            )
        write_safely(filesystem, directory, FORMATTING, b"")
        return
    for name in names:
        if name != FORMATTING:
            filesystem.remove(f"{directory}/{name}")
    filesystem.sync_directory(directory)


def _end_formatting(filesystem: FileSystem, directory: str) -> None:
    if filesystem.exists(f"{directory}/{FORMATTING}"):
        filesystem.remove(f"{directory}/{FORMATTING}")
        filesystem.sync_directory(directory)


def _make_directories(filesystem: FileSystem, path: str) -> None:
    """Makes a directory and those above it, each safe before the next."""
    parent, slash, _ = path.rstrip("/").rpartition("/")
    if parent and not filesystem.exists(parent):
        _make_directories(filesystem, parent)
    if not filesystem.exists(path):
        filesystem.make_directory(path)
    filesystem.sync_directory(parent or slash or ".")
