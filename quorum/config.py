"""The configuration of a voter, under Kafka's names wherever Kafka has one.

Values are checked once, here; how they are read from files, variables and flags is told in
`quorum.load_config`. What the active controller goes by is in `quorum.metadata.settings`, and what
all nodes must agree on is in the metadata itself: here it can only be given a first value.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from floodmark.addresses import Address, refuse_insecure
from floodmark.config import SettingError, check, required, setting, settings_of
from floodmark.errors import UserError

CONTROLLER: Final = "CONTROLLER"
RAFT: Final = "RAFT"
HTTP: Final = "HTTP"
LISTENER_NAMES: Final = (CONTROLLER, RAFT, HTTP)

CONTROLLER_PORT: Final = 9093
HTTP_PORT: Final = 9645
LOOPBACK: Final = "127.0.0.1"

_MOST_ID: Final = 2**31 - 1
_HOUR_MS: Final = 60 * 60 * 1000
_VOTERS: Final = "controller.quorum.voters"
_ENDPOINTS: Final = "controller.quorum.endpoints"
_LISTENERS: Final = "listeners"
_ELECTION: Final = "controller.quorum.election.timeout.ms"
_FETCH: Final = "controller.quorum.fetch.timeout.ms"
_HEARTBEAT: Final = "controller.quorum.heartbeat.interval.ms"
_CERTIFICATE: Final = "ssl.certificate.location"
_KEY: Final = "ssl.key.location"
_CA: Final = "ssl.ca.location"
_CLUSTER_CONFIGS: Final = (
    "num_partitions",
    "default_replication_factor",
    "min_insync_replicas",
    "unclean_leader_election_enable",
)


@dataclass(frozen=True, slots=True)
class Voter:
    """A voter's id and one of its addresses: `1@host:port`."""

    voter_id: int
    address: Address

    @classmethod
    def parse(cls, text: str) -> "Voter":
        voter_id, at, address = text.partition("@")
        if not at or not re.fullmatch("[0-9]{1,10}", voter_id) or int(voter_id) > _MOST_ID:
            raise ValueError("a voter is id@host:port")
        found = Address.parse(address)
        if not found.host or not found.port:
            raise ValueError(f"{text}: a voter needs a host and a port that others can call")
        return cls(int(voter_id), found)

    def __str__(self) -> str:
        return f"{self.voter_id}@{self.address}"


@dataclass(frozen=True, slots=True)
class Listener:
    """Where one of the services listens: `CONTROLLER://host:port`."""

    name: str
    address: Address

    @classmethod
    def parse(cls, text: str) -> "Listener":
        name, separator, address = text.partition("://")
        if not separator or name not in LISTENER_NAMES:
            wanted = ", ".join(LISTENER_NAMES)
            raise ValueError(f"a listener is NAME://host:port, with a name of {wanted}")
        return cls(name, Address.parse(address))

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


def voter_name(voter_id: int) -> str:
    """The common name in a voter's certificate."""
    return f"quorum-{voter_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """How a voter runs."""

    # who it is
    node_id: int = required("node.id", "The id of this voter.", least=0, most=_MOST_ID)
    voters: tuple[Voter, ...] = required(
        _VOTERS, "All voters as id@host:port, with their Raft addresses.", parse=Voter.parse
    )
    endpoints: tuple[Voter, ...] = setting(
        _ENDPOINTS,
        (),
        "The voters' gRPC addresses as id@host:port, told to who asks for the leader. Without it:"
        " the hosts of the voters with the port of this one's CONTROLLER listener.",
        parse=Voter.parse,
    )
    cluster_id: str | None = setting(
        "cluster.id", None, "The cluster that the metadata directory must belong to."
    )
    metadata_log_dir: str = required(
        "metadata.log.dir", "The directory of the journal and the snapshots."
    )

    # where it listens
    listeners: tuple[Listener, ...] = setting(
        _LISTENERS,
        (),
        "Where to listen: CONTROLLER://host:port (gRPC, 127.0.0.1:9093), RAFT://host:port (this"
        " voter's own address) and HTTP://host:port (127.0.0.1:9645).",
        parse=Listener.parse,
    )
    ssl_certificate: str | None = setting(
        _CERTIFICATE, None, "The PEM file of this node's certificate."
    )
    ssl_key: str | None = setting(_KEY, None, "The PEM file of this node's private key.")
    ssl_ca: str | None = setting(_CA, None, "The PEM file of the cluster's authority.")
    insecure: bool = setting(
        "insecure", False, "Allow listeners without TLS that other machines can reach."
    )

    # elections
    election_timeout_ms: int = setting(
        _ELECTION,
        300,
        "A voter that hears of no leader stands for election after this time to twice as long.",
        least=10,
        most=_HOUR_MS,
    )
    fetch_timeout_ms: int = setting(
        _FETCH,
        600,
        "A leader that has not heard of a majority for so long resigns.",
        least=10,
        most=_HOUR_MS,
    )
    heartbeat_interval_ms: int = setting(
        _HEARTBEAT, 75, "How often a leader tells the voters that it leads.", least=1
    )

    # snapshots
    max_snapshot_interval_ms: int | None = setting(
        "metadata.log.max.snapshot.interval.ms",
        _HOUR_MS,
        "A snapshot is taken after this time, if anything has changed.",
        least=0,
    )
    max_bytes_between_snapshots: int = setting(
        "metadata.log.max.record.bytes.between.snapshots",
        20 * 1024**2,
        "A snapshot is taken once so many bytes of records came after the last.",
        least=1,
    )
    max_entries_between_snapshots: int = setting(
        "metadata.log.max.entries.between.snapshots",
        100_000,
        "A snapshot is taken once so many entries came after the last.",
        least=1,
    )

    # first values of what the cluster agrees on; None: as the metadata has it
    num_partitions: int | None = setting(
        "num.partitions", None, "Partitions of a topic that is made without a number.", least=1
    )
    default_replication_factor: int | None = setting(
        "default.replication.factor",
        None,
        "Replicas of a partition that is made without a number. Without it: 3, or as many as"
        " there are brokers if those are fewer.",
        least=1,
        most=2**15 - 1,
    )
    min_insync_replicas: int | None = setting(
        "min.insync.replicas",
        None,
        "In-sync replicas without which nothing is acknowledged. Without it: 2 where there are 3"
        " replicas or more, else 1.",
        least=1,
    )
    unclean_leader_election_enable: bool | None = setting(
        "unclean.leader.election.enable",
        None,
        "Whether a replica that lacks acknowledged records may lead if no other is left.",
    )

    # logging
    logging_format: str = setting(
        "logging.format", "text", "Lines of text or of JSON.", one_of=("text", "json")
    )
    logging_level: str = setting(
        "logging.level",
        "INFO",
        "What is logged: this and everything worse.",
        one_of=("DEBUG", "INFO", "WARNING", "ERROR"),
    )

    def __post_init__(self) -> None:
        check(self)
        _check_voters(self)
        _check_listeners(self)
        _check_timeouts(self)
        _check_tls(self)

    @property
    def voter(self) -> Voter:
        """This voter."""
        return next(voter for voter in self.voters if voter.voter_id == self.node_id)

    @property
    def controller_listener(self) -> Address:
        return self._listener(CONTROLLER, Address(LOOPBACK, CONTROLLER_PORT))

    @property
    def raft_listener(self) -> Address:
        return self._listener(RAFT, self.voter.address)

    @property
    def http_listener(self) -> Address:
        return self._listener(HTTP, Address(LOOPBACK, HTTP_PORT))

    @property
    def uses_tls(self) -> bool:
        return self.ssl_certificate is not None

    @property
    def election_timeout_max_ms(self) -> int:
        return 2 * self.election_timeout_ms

    @property
    def cluster_configs(self) -> dict[str, str]:
        """What the file gives of the cluster's configuration, by property."""
        described = settings_of(self)
        values = {described[name].name: getattr(self, name) for name in _CLUSTER_CONFIGS}
        return {name: str(value).lower() for name, value in values.items() if value is not None}

    def endpoint_of(self, voter_id: int) -> Address:
        """Where a voter's gRPC service is; a `KeyError` for who is no voter."""
        for found in self.endpoints:
            if found.voter_id == voter_id:
                return found.address
        for voter in self.voters:
            if voter.voter_id == voter_id:
                return Address(voter.address.host, self.controller_listener.port)
        raise KeyError(voter_id)

    def _listener(self, name: str, default: Address) -> Address:
        return next((item.address for item in self.listeners if item.name == name), default)


def _check_voters(config: QuorumConfig) -> None:
    ids = [voter.voter_id for voter in config.voters]
    _check_distinct(_VOTERS, ids, "id")
    _check_distinct(_VOTERS, [voter.address for voter in config.voters], "address")
    if config.node_id not in ids:
        raise SettingError(
            _VOTERS,
            f"{_VOTERS} does not name this node, {config.node_id}",
            "add it, or correct node.id",
        )
    endpoints = [endpoint.voter_id for endpoint in config.endpoints]
    _check_distinct(_ENDPOINTS, endpoints, "id")
    if endpoints and sorted(endpoints) != sorted(ids):
        raise SettingError(
            _ENDPOINTS, f"{_ENDPOINTS} and {_VOTERS} name different voters", "name the same ones"
        )


def _check_distinct(name: str, values: Sequence[object], noun: str) -> None:
    for value in values:
        if values.count(value) > 1:
            raise SettingError(
                name, f"{name} has the {noun} {value} twice", f"give each its own {noun}"
            )


def _check_listeners(config: QuorumConfig) -> None:
    _check_distinct(_LISTENERS, [item.name for item in config.listeners], "name")
    addresses = (config.controller_listener, config.raft_listener, config.http_listener)
    fixed = [address for address in addresses if address.port]
    _check_distinct(_LISTENERS, fixed, "address")
    for address in addresses:
        try:
            refuse_insecure(address.host, tls=config.uses_tls, insecure=config.insecure)
        except UserError as error:
            raise SettingError(_LISTENERS, error.what, error.remedy) from None


def _check_timeouts(config: QuorumConfig) -> None:
    if config.fetch_timeout_ms > config.election_timeout_max_ms:
        raise SettingError(
            _FETCH,
            f"{_FETCH} cannot be {config.fetch_timeout_ms}: a leader that is cut off would outlive"
            " the election of the next",
            f"use at most twice {_ELECTION}, {config.election_timeout_max_ms}",
        )
    if 2 * config.heartbeat_interval_ms > config.election_timeout_ms:
        raise SettingError(
            _HEARTBEAT,
            f"{_HEARTBEAT} cannot be {config.heartbeat_interval_ms}: one that is late would start"
            " an election",
            f"use at most half of {_ELECTION}, {config.election_timeout_ms // 2}",
        )


def _check_tls(config: QuorumConfig) -> None:
    values = {_CERTIFICATE: config.ssl_certificate, _KEY: config.ssl_key, _CA: config.ssl_ca}
    missing = [name for name, value in values.items() if value is None]
    if missing and len(missing) < len(values):
        raise SettingError(
            missing[0], f"{missing[0]} is missing", f"TLS needs all of {', '.join(values)}"
        )
