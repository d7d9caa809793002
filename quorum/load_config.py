"""Reading a voter's configuration: one file for the voter and for the controller in it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from floodmark.config import property_names
from floodmark.config_file import Loaded, load
from floodmark.tls import TlsFiles
from quorum.config import QuorumConfig
from quorum.metadata.settings import ControllerSettings

BROKER_PROPERTIES: Final = ("log.flush.mode", "admin.listeners", "admin.advertised.listeners")
"""Properties of ours that only brokers read: a file may serve both programs."""


def load_quorum_config(
    *,
    path: str | Path | None,
    environment: Mapping[str, str],
    flags: Sequence[str] = (),
) -> Loaded[QuorumConfig]:
    others = (*property_names(ControllerSettings), *BROKER_PROPERTIES)
    return load(QuorumConfig, path=path, environment=environment, flags=flags, others=others)


def load_controller_settings(
    *,
    path: str | Path | None,
    environment: Mapping[str, str],
    flags: Sequence[str] = (),
    cluster_id: str,
) -> ControllerSettings:
    """From the same sources; the cluster's id is the one that the metadata directory has."""
    loaded = load(
        ControllerSettings,
        path=path,
        environment=environment,
        flags=flags,
        others=(*property_names(QuorumConfig), *BROKER_PROPERTIES),
        known={"cluster_id": cluster_id},
    )
    return loaded.config


def tls_files(config: QuorumConfig) -> TlsFiles | None:
    """The files for `floodmark.tls`; None without TLS."""
    if config.ssl_certificate is None or config.ssl_key is None or config.ssl_ca is None:
        return None
    return TlsFiles(certificate=config.ssl_certificate, key=config.ssl_key, ca=config.ssl_ca)
