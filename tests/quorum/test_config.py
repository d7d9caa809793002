"""A voter's configuration: Kafka's names, our defaults, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from floodmark.addresses import Address
from floodmark.config import SettingError, settings_of
from floodmark.config_file import load
from floodmark.errors import UserError
from floodmark.kafka_properties import is_kafka_property
from quorum.config import Listener, QuorumConfig, Voter, voter_name
from quorum.load_config import load_controller_settings, load_quorum_config, tls_files

THREE = "1@127.0.0.1:9094,2@127.0.0.1:9194,3@127.0.0.1:9294"
BASE = {
    "node.id": "2",
    "controller.quorum.voters": THREE,
    "metadata.log.dir": "/data",
}
TLS = {
    "ssl.certificate.location": "/pki/quorum-2.crt",
    "ssl.key.location": "/pki/quorum-2.key",
    "ssl.ca.location": "/pki/ca.crt",
}


def config(values: dict[str, str] | None = None) -> QuorumConfig:
    return load(QuorumConfig, flags=[f"{k}={v}" for k, v in (BASE | (values or {})).items()]).config


def refused(values: dict[str, str], match: str) -> None:
    with pytest.raises(UserError, match=match) as caught:
        config(values)
    assert "\n" not in str(caught.value)


def test_a_voter_needs_three_lines() -> None:
    found = config()
    assert found.node_id == 2
    assert found.voter == Voter(2, Address("127.0.0.1", 9194))
    assert found.controller_listener == Address("127.0.0.1", 9093)
    assert found.raft_listener == Address("127.0.0.1", 9194)
    assert found.http_listener == Address("127.0.0.1", 9645)
    assert not found.uses_tls
    assert tls_files(found) is None
    assert found.cluster_configs == {}


def test_elections_take_300_to_600_ms() -> None:
    found = config()
    assert (found.election_timeout_ms, found.election_timeout_max_ms) == (300, 600)
    assert found.fetch_timeout_ms <= found.election_timeout_max_ms


@pytest.mark.parametrize("name", BASE)
def test_what_nobody_else_can_know_must_be_given(name: str) -> None:
    flags = [f"{key}={value}" for key, value in BASE.items() if key != name]
    with pytest.raises(UserError, match=f"{name} is missing"):
        load(QuorumConfig, flags=flags)


def test_names_are_kafkas_or_known_to_be_ours() -> None:
    names = {described.name for described in settings_of(QuorumConfig).values()}
    assert {name for name in names if not is_kafka_property(name)} == {
        "cluster.id",
        "controller.quorum.endpoints",
        "controller.quorum.heartbeat.interval.ms",
        "insecure",
        "logging.format",
        "logging.level",
        "metadata.log.max.entries.between.snapshots",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
    }
    assert all(described.doc for described in settings_of(QuorumConfig).values())


def test_listeners_are_said_as_in_kafka() -> None:
    found = config({"listeners": "HTTP://localhost:1, RAFT://[::1]:0, CONTROLLER://127.0.0.1:0"})
    assert found.http_listener == Address("localhost", 1)
    assert found.raft_listener == Address("::1", 0)
    assert found.controller_listener == Address("127.0.0.1", 0)
    assert str(found.listeners[1]) == "RAFT://[::1]:0"
    assert Listener.parse("RAFT://[::1]:0") == found.listeners[1]


def test_the_leaders_address_is_known_for_every_voter() -> None:
    voters = "1@a:9094,2@b:9094"
    listeners = "CONTROLLER://b:7000"
    found = config({"controller.quorum.voters": voters, "listeners": listeners, "insecure": "true"})
    assert [str(found.endpoint_of(i)) for i in (1, 2)] == ["a:7000", "b:7000"]
    said = replace(found, endpoints=(Voter.parse("2@y:2"), Voter.parse("1@x:1")))
    assert [str(said.endpoint_of(i)) for i in (1, 2)] == ["x:1", "y:2"]
    with pytest.raises(KeyError):
        said.endpoint_of(3)


def test_what_the_file_says_of_the_cluster_is_kept_apart() -> None:
    found = config({"min.insync.replicas": "2", "unclean.leader.election.enable": "false"})
    assert found.cluster_configs == {
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
    }


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"node.id": "4"}, "does not name this node, 4"),
        ({"node.id": "-1"}, "cannot be -1"),
        ({"controller.quorum.voters": ""}, "does not name this node"),
        ({"controller.quorum.voters": "127.0.0.1:9094"}, "a voter is id@host:port"),
        ({"controller.quorum.voters": "2@127.0.0.1"}, "it is not host:port"),
        ({"controller.quorum.voters": "2@:9094"}, "needs a host and a port"),
        ({"controller.quorum.voters": "2@h:0"}, "needs a host and a port"),
        ({"controller.quorum.voters": "2@h:1,2@i:1"}, "has the id 2 twice"),
        ({"controller.quorum.voters": "2@h:1,3@h:1"}, "has the address h:1 twice"),
        ({"controller.quorum.voters": "9999999999@h:1"}, "a voter is id@host:port"),
        ({"controller.quorum.endpoints": "1@h:1"}, "name different voters"),
        ({"listeners": "PLAINTEXT://127.0.0.1:9092"}, "with a name of CONTROLLER, RAFT, HTTP"),
        ({"listeners": "127.0.0.1:9092"}, "a listener is NAME://host:port"),
        ({"listeners": "HTTP://127.0.0.1:1,HTTP://127.0.0.1:2"}, "has the name HTTP twice"),
        ({"listeners": "HTTP://127.0.0.1:9093"}, r"has the address 127\.0\.0\.1:9093 twice"),
        ({"controller.quorum.fetch.timeout.ms": "700"}, "use at most twice"),
        ({"controller.quorum.heartbeat.interval.ms": "200"}, "use at most half"),
        ({"controller.quorum.election.timeout.ms": "0"}, "use at least 10"),
        ({"ssl.key.location": "/k"}, r"ssl\.certificate\.location is missing; TLS needs all of"),
        ({"logging.format": "xml"}, "use one of text, json"),
        ({"logging.level": "LOUD"}, "use one of DEBUG"),
        ({"default.replication.factor": "0"}, "use at least 1"),
        ({"insecure": "maybe"}, "neither true nor false"),
    ],
)
def test_what_cannot_work_is_refused(values: dict[str, str], told: str) -> None:
    refused(values, told)


@pytest.mark.parametrize("name", ["CONTROLLER", "RAFT", "HTTP"])
def test_a_listener_that_others_reach_needs_tls_or_a_word(name: str) -> None:
    open_to_all = {"listeners": f"{name}://0.0.0.0:7777"}
    refused(open_to_all, "insecure=true")
    assert config(open_to_all | {"insecure": "true"}).insecure
    protected = config(open_to_all | TLS)
    files = tls_files(protected)
    assert files is not None
    assert (files.certificate, files.key, files.ca) == tuple(TLS.values())


def test_a_voter_whose_own_address_is_reachable_needs_tls_too() -> None:
    refused({"controller.quorum.voters": "2@10.0.0.1:9094"}, "without TLS")


def test_a_made_object_is_checked_as_a_read_one() -> None:
    values: dict[str, Any] = {"node_id": 1, "metadata_log_dir": "/d"}
    with pytest.raises(SettingError, match="does not name this node"):
        QuorumConfig(voters=(Voter(2, Address("h", 1)),), **values)


def test_a_certificate_names_a_voter_by_its_id() -> None:
    assert voter_name(2) == "quorum-2"


def test_one_file_serves_the_voter_the_controller_and_the_broker(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        'node.id = 2\nmetadata.log.dir = "/data"\n'
        f'controller.quorum.voters = "{THREE}"\n'
        "broker.session.timeout.ms = 4000\n"
        'log.flush.mode = "os"\n'
        "num.io.threads = 8\n"
    )
    loaded = load_quorum_config(path=path, environment={"FLOODMARK_LOGGING_LEVEL": "DEBUG"})
    assert loaded.config.logging_level == "DEBUG"
    [warning] = loaded.warnings
    assert warning.endswith(": num.io.threads")
    settings = load_controller_settings(path=path, environment={}, cluster_id="c")
    assert (settings.session_timeout_ms, settings.cluster_id) == (4000, "c")


def test_a_mistake_in_the_controllers_part_is_told_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.properties"
    path.write_text("broker.session.timeout.ms=1\n")
    with pytest.raises(UserError, match=r"a\.properties: broker\.session\.timeout\.ms cannot be 1"):
        load_controller_settings(path=path, environment={}, cluster_id="c")
