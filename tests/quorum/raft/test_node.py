"""Voters over real sockets and disks, in one process."""

import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest

from floodmark.errors import UserError
from floodmark.tls import TlsFiles
from floodmark.tls_authority import Authority
from quorum.raft.port import Outcome
from tests.quorum.raft.nodes import Voters, propose, read_index, wait_for


def test_a_committed_command_reaches_every_voter(tmp_path: Path) -> None:
    with Voters(tmp_path) as voters:
        voters.start()
        for number in range(20):
            assert voters.write(b"%d" % number).outcome is Outcome.COMMITTED
        expected = [b"%d" % number for number in range(20)]
        for voter in voters.up.values():
            wait_for(lambda v=voter: v.recorder.commands == expected, "all commands")  # type: ignore[misc]
            assert not voter.failures


def test_what_was_committed_survives_a_restart_of_all_voters(tmp_path: Path) -> None:
    with Voters(tmp_path) as voters:
        voters.start()
        assert voters.write(b"kept").outcome is Outcome.COMMITTED
        for voter_id in voters.ids:
            voters.stop(voter_id)
        voters.start()
        leader = voters.leader()
        assert leader.recorder.commands == [b"kept"]


def test_another_voter_leads_when_the_leader_stops(tmp_path: Path) -> None:
    with Voters(tmp_path) as voters:
        voters.start()
        voters.write(b"before")
        leader = voters.leader()
        voters.stop(next(i for i, voter in voters.up.items() if voter is leader))
        assert voters.write(b"after").outcome is Outcome.COMMITTED
        assert voters.leader().recorder.commands == [b"before", b"after"]


def test_a_voter_that_missed_much_gets_a_snapshot(tmp_path: Path) -> None:
    with Voters(tmp_path, snapshot_entries=10) as voters:
        voters.start(1, 2)
        for number in range(100):
            voters.write(b"%d" % number)
        voters.start(3)
        wait_for(lambda: len(voters.up[3].recorder.commands) == 100, "the third voter")
        wait_for(lambda: voters.up[3].node.status().log_start_index > 1, "its status")


def test_only_the_leader_takes_commands_and_reads(tmp_path: Path) -> None:
    with Voters(tmp_path) as voters:
        voters.start()
        voters.write(b"x")
        leader = voters.leader()
        followers = [voter for voter in voters.up.values() if voter is not leader]
        assert propose(followers[0].node, b"y").outcome is Outcome.NOT_LEADER
        assert read_index(followers[0].node) is None
        index = read_index(leader.node)
        assert index is not None
        assert index >= 3


def test_one_voter_alone_is_a_quorum(tmp_path: Path) -> None:
    with Voters(tmp_path, count=1) as voters:
        voters.start()
        assert voters.write(b"alone").outcome is Outcome.COMMITTED
        voters.stop(1)
        voters.start()
        assert voters.leader().recorder.commands == [b"alone"]


def test_an_oversized_command_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    with Voters(tmp_path, count=1) as voters:
        voters.start()
        leader = voters.leader()
        assert propose(leader.node, bytes(2 << 20)).outcome is Outcome.REFUSED
        assert voters.write(b"small").outcome is Outcome.COMMITTED
        assert leader.recorder.commands == [b"small"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x14\x00\x00\x00\x93\xb0floodmark-raft-1\xa1\xff\x01",
        b"\xff" * 100,
        b"\x02\x00\x00\x00\xc1\xc1",
        b"\x01\x00\x00\x00\x80",
    ],
)
def test_garbage_on_the_raft_port_hurts_nobody(tmp_path: Path, garbage: bytes) -> None:
    with Voters(tmp_path) as voters:
        voters.start()
        voters.leader()
        for address in voters.addresses.values():
            with socket.create_connection((address.host, address.port), timeout=10) as stranger:
                stranger.sendall(garbage)
                while stranger.recv(4096):
                    pass
        assert voters.write(b"still here").outcome is Outcome.COMMITTED


def test_a_port_in_use_is_one_clear_error(tmp_path: Path) -> None:
    with Voters(tmp_path) as voters:
        address = voters.addresses[1]
        with socket.create_server((address.host, address.port)):
            with pytest.raises(UserError, match="cannot listen for voters"):
                voters.start(1)
            voters.up.pop(1)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tls")
    make_certificates(directory, "quorum-1", "quorum-2", "quorum-3", "quorum-9")
    return directory


def test_voters_talk_over_mutual_tls(tmp_path: Path, certificates: Path) -> None:
    with Voters(tmp_path, tls=lambda voter_id: files(certificates, f"quorum-{voter_id}")) as voters:
        voters.start()
        assert voters.write(b"secret").outcome is Outcome.COMMITTED


def test_a_voter_with_the_certificate_of_another_is_refused(
    tmp_path: Path, certificates: Path
) -> None:
    names = {1: "quorum-1", 2: "quorum-2", 3: "quorum-9"}
    with Voters(tmp_path, tls=lambda voter_id: files(certificates, names[voter_id])) as voters:
        voters.start()
        voters.write(b"among the honest")
        wait_for(lambda: len(voters.up[2].recorder.commands) == 1, "the second voter")
        assert voters.up[3].recorder.commands == []
        assert voters.up[3].recorder.leadership is None or (
            voters.up[3].recorder.leadership.leader_id is None
        )


def make_certificates(directory: Path, *names: str) -> None:
    now = datetime.now(UTC)
    authority = Authority.create("test", now=now, days=1)
    (directory / "ca.crt").write_bytes(authority.pair.certificate)
    for name in names:
        pair = authority.issue(name, hosts=["127.0.0.1"], now=now, days=1)
        (directory / f"{name}.crt").write_bytes(pair.certificate)
        (directory / f"{name}.key").write_bytes(pair.key)


def files(directory: Path, name: str) -> TlsFiles:
    return TlsFiles(
        certificate=str(directory / f"{name}.crt"),
        key=str(directory / f"{name}.key"),
        ca=str(directory / "ca.crt"),
    )
