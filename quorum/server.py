"""The composition root of `floodmark-quorum`: from a configuration to a running voter.

Signals stop it: SIGTERM and SIGINT end it cleanly with exit code 0. What it cannot go on after (a
disk that fails, metadata that it cannot read) ends it with one line and another exit code.
"""

import asyncio
import gc
import logging
import os
import resource
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from floodmark import logs, tls
from floodmark.errors import UserError
from log.filesystem import FileSystem, OsFileSystem
from quorum import recovery
from quorum.config import QuorumConfig, voter_name
from quorum.load_config import load_controller_settings, load_quorum_config, tls_files
from quorum.metadata.records import MetadataFormatError
from quorum.metadata.settings import ControllerSettings
from quorum.raft import journal
from quorum.raft.journal_format import Damaged
from quorum.raft.node import RaftNode, RaftNodeOptions
from quorum.raft.ports import RaftConfig
from quorum.raft.transport import Peers
from quorum.state_machine import MetadataStateMachine
from quorum.storage import check_voters, lock_storage, open_storage
from quorum.voter import Listeners, OnFatal, Voter, VoterOptions

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
GC_THRESHOLD: Final = (50_000, 20, 1_000)
"""The image is large and long-lived: to look through all of it often keeps heartbeats waiting."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the configuration comes from."""

    path: Path | None
    flags: Sequence[str] = ()
    environment: Mapping[str, str]


def run(sources: Sources) -> int:
    """Runs a voter until it is told to stop; the exit code."""
    loaded = load_quorum_config(
        path=sources.path, environment=sources.environment, flags=sources.flags
    )
    config = loaded.config
    logs.configure(
        log_format=config.logging_format,
        level=config.logging_level,
        node=voter_name(config.node_id),
    )
    for warning in loaded.warnings:
        logger.warning("%s", warning)
    _check_certificate(config)
    _allow_many_files()
    gc.set_threshold(*GC_THRESHOLD)
    filesystem = OsFileSystem()
    meta = open_storage(
        filesystem,
        config.metadata_log_dir,
        node_id=config.node_id,
        cluster_id=config.cluster_id,
        journal_exists=journal.exists,
    )
    settings = load_controller_settings(
        path=sources.path,
        environment=sources.environment,
        flags=sources.flags,
        cluster_id=meta.cluster_id,
    )
    lock = lock_storage(filesystem, config.metadata_log_dir)
    try:
        check_voters(
            filesystem, config.metadata_log_dir, [voter.voter_id for voter in config.voters]
        )
        asyncio.run(serve(config, settings, filesystem))
    except MetadataFormatError as error:
        raise UserError(str(error), "run the newest version that any voter has run") from error
    except Damaged as error:
        raise UserError(str(error), "see 'floodmark quorum recover --help'") from error
    except OSError as error:
        what = f"{config.metadata_log_dir}: {error.strerror or error}"
        raise UserError(what, "see to the disk, and start the voter again") from error
    finally:
        lock.close()
    return os.EX_OK


def _check_certificate(config: QuorumConfig) -> None:
    files = tls_files(config)
    if files is None:
        return
    name, expected = tls.load_material(files).name, voter_name(config.node_id)
    if name != expected:
        raise UserError(
            f"{files.certificate} is the certificate of {name!r}, and this is {expected!r}",
            "use this voter's own: the others know it by that name",
        )


def _allow_many_files() -> None:
    """Connections take file descriptors; strangers' must not take those that we need."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def serve(config: QuorumConfig, settings: ControllerSettings, filesystem: FileSystem) -> None:
    """Until a signal comes; raises what the voter cannot go on after."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stopping.set)

    def make_engine(machine: MetadataStateMachine, on_fatal: OnFatal) -> RaftNode:
        options = raft_options(config, settings.cluster_id, filesystem)
        return RaftNode(options, machine, machine, on_fatal)

    voter = Voter(
        VoterOptions(
            settings=settings,
            address_of=lambda voter_id: endpoint(config, voter_id),
            cluster_configs=config.cluster_configs,
        ),
        make_engine,
    )
    if recovery.is_recovering(filesystem, config.metadata_log_dir):
        logger.warning("this voter recovers: it has no vote until it holds everything again")
    try:
        await voter.start(listeners(config))
        logger.info("voter %d of cluster %s is running", config.node_id, settings.cluster_id)
        await _first_of(stopping, voter)
        logger.info("stopping")
    finally:
        await voter.stop()
        for number in SIGNALS:
            loop.remove_signal_handler(number)
    logger.info("stopped")


async def _first_of(stopping: asyncio.Event, voter: Voter) -> None:
    """Waits for a signal; raises the voter's failure if that comes first."""
    signalled = asyncio.create_task(stopping.wait(), name="signal")
    failed = asyncio.create_task(voter.wait_for_failure(), name="failure")
    try:
        await asyncio.wait([signalled, failed], return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            failed.result()
    finally:
        for task in (signalled, failed):
            task.cancel()
        await asyncio.gather(signalled, failed, return_exceptions=True)


def endpoint(config: QuorumConfig, voter_id: int) -> str | None:
    """Where a voter takes commands; None for who is no voter."""
    try:
        return str(config.endpoint_of(voter_id))
    except KeyError:
        return None


def listeners(config: QuorumConfig) -> Listeners:
    files = tls_files(config)
    return Listeners(
        controller=config.controller_listener,
        http=config.http_listener,
        tls=None if files is None else tls.load_material(files),
        # Metrics and health are read by programs that have no certificate of the cluster.
        https=None if files is None else tls.server_context(files, client_certificates=False),
    )


def raft_options(config: QuorumConfig, cluster_id: str, filesystem: FileSystem) -> RaftNodeOptions:
    return RaftNodeOptions(
        config=RaftConfig(
            voter_id=config.node_id,
            voters=tuple(sorted(voter.voter_id for voter in config.voters)),
            election_timeout_min_ms=config.election_timeout_ms,
            election_timeout_max_ms=config.election_timeout_max_ms,
            resign_timeout_ms=config.fetch_timeout_ms,
            heartbeat_ms=config.heartbeat_interval_ms,
            snapshot_entries=config.max_entries_between_snapshots,
            snapshot_bytes=config.max_bytes_between_snapshots,
            snapshot_interval_ms=config.max_snapshot_interval_ms,
        ),
        filesystem=filesystem,
        directory=config.metadata_log_dir,
        peers=Peers(
            voter_id=config.node_id,
            cluster_id=cluster_id,
            addresses={
                voter.voter_id: voter.address
                for voter in config.voters
                if voter.voter_id != config.node_id
            },
            tls=tls_files(config),
            certificate_name=voter_name,
        ),
        listen=config.raft_listener,
        is_recovering=recovery.is_recovering(filesystem, config.metadata_log_dir),
        on_recovered=partial(recovery.finish, filesystem, config.metadata_log_dir),
    )
