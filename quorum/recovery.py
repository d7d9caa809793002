"""A voter that has lost its disk: how it comes back without taking promises back with it.

It has forgotten its votes and what it acknowledged. Were it to start as if it were new, it could
vote twice in a term, or help to elect a leader that lacks what it once made a majority for. So a
mark in its directory says that it recovers: the engine then takes the log from the leader, and
counts for nothing until it holds everything that was committed. The mark is made before the
directory is a voter's, and removed when the engine says so.
"""

from typing import Final

from floodmark.errors import UserError
from log.filesystem import FileSystem
from log.flush import write_safely
from quorum.config import QuorumConfig
from quorum.raft import journal
from quorum.storage import format_storage, read_storage

MARK: Final = "recovering"


def prepare(filesystem: FileSystem, config: QuorumConfig, cluster_id: str) -> None:
    """Makes an empty directory that of a voter that recovers."""
    if len(config.voters) == 1:
        raise UserError(
            "the only voter of a cluster has nobody to recover from",
            "put its disk back, or restore its directory from a copy",
        )

    if read_storage(filesystem, config.metadata_log_dir) is not None:
        raise UserError(
            f"{config.metadata_log_dir} is a voter's directory",
            "move it away first: recovering begins with an empty one",
        )

    def create(filesystem: FileSystem, directory: str) -> None:
        write_safely(filesystem, directory, MARK, b"")
        journal.create(filesystem, directory)

    format_storage(
        filesystem,
        config.metadata_log_dir,
        node_id=config.node_id,
        cluster_id=cluster_id,
        create_journal=create,
    )


def is_recovering(filesystem: FileSystem, directory: str) -> bool:
    return filesystem.exists(f"{directory}/{MARK}")


def finish(filesystem: FileSystem, directory: str) -> None:
    """The voter holds everything again."""
    filesystem.remove(f"{directory}/{MARK}")
    filesystem.sync_directory(directory)
