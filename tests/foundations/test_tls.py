"""`floodmark tls`, and the contexts that are made from its files."""

import asyncio
import json
import ssl
import stat
from datetime import UTC, datetime, timedelta
from importlib.metadata import EntryPoint
from ipaddress import ip_address
from pathlib import Path

import pytest
import trustme
from cryptography import x509

from admin.cli.tls import write_pairs
from floodmark.cli.guard import guarded
from floodmark.cli.run import run_command
from floodmark.cli.table import GROUP
from floodmark.errors import ExitCode, UserError
from floodmark.tls import TlsFiles, client_context, load_material, peer_name, server_context
from floodmark.tls_authority import Authority, PemPair

NOW = datetime.now(UTC)


def tls(*arguments: str) -> int:
    entry = EntryPoint(name="tls", value="admin.cli.tls:app", group=GROUP)
    return guarded("floodmark", lambda: run_command("tls", entry, arguments))


def files_of(directory: Path, name: str) -> TlsFiles:
    return TlsFiles(
        certificate=str(directory / f"{name}.crt"),
        key=str(directory / f"{name}.key"),
        ca=str(directory / "ca.crt"),
    )


def names_of(path: Path) -> tuple[str, set[str]]:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    [common] = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    found = {*names.get_values_for_type(x509.DNSName)}
    found |= {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    return str(common.value), found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tls") / "new" / "pki"
    code = tls(
        *("init", str(directory), "--nodes", "quorum-1,quorum-2", "--nodes", "broker-1"),
        *("--hosts", "all.example,10.0.0.9", "--hosts", "broker-1=b1.example", "--days", "30"),
    )
    assert code == 0
    return directory


# ------------------------------------------------------------------------------------- the command


def test_init_makes_an_authority_and_a_pair_per_node(cluster: Path) -> None:
    nodes = ("ca", "broker-1", "quorum-1", "quorum-2")
    assert {path.name for path in cluster.iterdir()} == {
        f"{name}{suffix}" for name in nodes for suffix in (".crt", ".key")
    }


def test_keys_are_their_owners_alone(cluster: Path) -> None:
    for path in cluster.glob("*.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(cluster.stat().st_mode) == 0o700


def test_a_certificate_has_the_nodes_name_its_hosts_and_the_loopback(cluster: Path) -> None:
    always = {"localhost", "127.0.0.1", "::1", "all.example", "10.0.0.9"}
    assert names_of(cluster / "quorum-1.crt") == ("quorum-1", {"quorum-1", *always})
    assert names_of(cluster / "broker-1.crt") == ("broker-1", {"broker-1", "b1.example", *always})


def test_days_are_the_lifetime_and_the_authority_outlives_them(cluster: Path) -> None:
    node = x509.load_pem_x509_certificate((cluster / "quorum-1.crt").read_bytes())
    ca = x509.load_pem_x509_certificate((cluster / "ca.crt").read_bytes())
    assert timedelta(29) < node.not_valid_after_utc - NOW < timedelta(31)
    assert ca.not_valid_after_utc > node.not_valid_after_utc
    assert ca.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not node.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_init_replaces_nothing(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in cluster.iterdir()}
    assert tls("init", str(cluster), "--nodes", "other") == ExitCode.ERROR
    assert "ca.crt exists and is not replaced" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in cluster.iterdir()} == before


def test_a_write_that_fails_leaves_nothing_of_its_own(tmp_path: Path) -> None:
    pair = Authority.create("a", now=NOW, days=1).pair
    (tmp_path / "b.crt").write_text("made meanwhile by somebody else")
    with pytest.raises(FileExistsError):
        write_pairs(tmp_path, {"a": pair, "b": pair})
    assert [path.name for path in tmp_path.iterdir()] == ["b.crt"]
    assert (tmp_path / "b.crt").read_text() == "made meanwhile by somebody else"


def test_add_makes_nodes_that_the_others_trust(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tls("init", str(tmp_path), "--nodes", "broker-1") == 0
    capsys.readouterr()
    assert tls("add", str(tmp_path), "--nodes", "broker-2", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [file["name"] for file in document["files"]] == ["broker-2"]
    assert load_material(files_of(tmp_path, "broker-2")).name == "broker-2"
    assert tls("add", str(tmp_path), "--nodes", "broker-2") == ExitCode.ERROR


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--nodes", "a/b"], "'a/b' cannot be the name of a node"),
        (["--nodes", "../up"], "cannot be the name"),
        (["--nodes", "x" * 65], "cannot be the name"),
        (["--nodes", "ca"], "ca is the authority's name"),
        (["--nodes", ","], "no node is named"),
        (["--nodes", "a", "--hosts", "b=c"], "no node is called b"),
        (["--nodes", "a", "--hosts", "two words"], "is no host"),
        (["--nodes", "a", "--hosts", "a=1:2"], "is no host"),
        (["--days", "0"], "--days"),
    ],
)
def test_bad_arguments_are_told_and_make_nothing(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tls("init", str(tmp_path / "pki"), *arguments) == ExitCode.ERROR
    err = capsys.readouterr().err
    assert told in err
    assert err.count("\n") == 1
    assert not (tmp_path / "pki").exists()


def test_add_without_an_authority_says_what_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tls("add", str(tmp_path), "--nodes", "a") == ExitCode.ERROR
    assert f"run 'floodmark tls init {tmp_path}'" in capsys.readouterr().err
    for name in ("ca.crt", "ca.key"):
        (tmp_path / name).write_text("garbage")
    assert tls("add", str(tmp_path), "--nodes", "a") == ExitCode.ERROR
    assert "are not an authority" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------- contexts


async def handshake(
    server: ssl.SSLContext, client: ssl.SSLContext, server_hostname: str = "127.0.0.1"
) -> tuple[str | None, str | None, str | None]:
    """The names that server and client saw, and the version; the server's failure if it failed."""
    seen: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.set_result(peer_name(writer.get_extra_info("ssl_object")))
        writer.write(b"!")
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=server)
    try:
        port = listener.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=client, server_hostname=server_hostname
        )
        try:
            # In TLS 1.3 a client learns only here that its certificate was refused.
            await reader.readexactly(1)
            tls_object = writer.get_extra_info("ssl_object")
            return await seen, peer_name(tls_object), tls_object.version()
        finally:
            writer.close()
    finally:
        listener.close()


def test_both_sides_prove_their_names(cluster: Path) -> None:
    server = server_context(files_of(cluster, "quorum-1"))
    client = client_context(files_of(cluster, "quorum-2"))
    seen = asyncio.run(handshake(server, client))
    assert seen == ("quorum-2", "quorum-1", "TLSv1.3")
    assert asyncio.run(handshake(server, client, "quorum-1"))[1] == "quorum-1"


def test_a_node_under_another_name_is_refused(cluster: Path) -> None:
    server = server_context(files_of(cluster, "quorum-1"))
    client = client_context(files_of(cluster, "quorum-2"))
    with pytest.raises(ssl.SSLCertVerificationError, match="broker-1"):
        asyncio.run(handshake(server, client, "broker-1"))


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    assert tls("init", str(tmp_path / "stranger"), "--nodes", "quorum-2") == 0
    return tmp_path / "stranger"


def test_a_client_of_another_authority_is_refused(cluster: Path, stranger: Path) -> None:
    server = server_context(files_of(cluster, "quorum-1"))
    client = client_context(files_of(stranger, "quorum-2"))
    client.load_verify_locations(cafile=str(cluster / "ca.crt"))
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        asyncio.run(handshake(server, client))


def test_a_client_without_a_certificate_is_refused_unless_all_may_come(cluster: Path) -> None:
    anonymous = ssl.create_default_context(cafile=str(cluster / "ca.crt"))
    files = files_of(cluster, "quorum-1")
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        asyncio.run(handshake(server_context(files), anonymous))
    open_to_all = server_context(files, client_certificates=False)
    assert asyncio.run(handshake(open_to_all, anonymous))[:2] == (None, "quorum-1")


def test_older_versions_of_tls_are_refused(cluster: Path) -> None:
    client = client_context(files_of(cluster, "quorum-2"))
    client.minimum_version = ssl.TLSVersion.TLSv1_2
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        asyncio.run(handshake(server_context(files_of(cluster, "quorum-1")), client))


def test_certificates_of_other_makers_work_with_a_chain(tmp_path: Path) -> None:
    root = trustme.CA()
    between = root.create_child_ca()
    leaf = between.issue_cert("127.0.0.1", common_name="broker-9")
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
    (tmp_path / "n.crt").write_bytes(chain)
    leaf.private_key_pem.write_to_path(tmp_path / "n.key")
    root.cert_pem.write_to_path(tmp_path / "ca.crt")
    files = files_of(tmp_path, "n")
    assert load_material(files).name == "broker-9"
    seen = asyncio.run(handshake(server_context(files), client_context(files)))
    assert seen[:2] == ("broker-9", "broker-9")


# --------------------------------------------------------------------------------------- bad files


def refused(files: TlsFiles, match: str) -> None:
    for make in (server_context, client_context, load_material):
        with pytest.raises(UserError, match=match):
            make(files)


def test_material_is_what_the_files_hold_and_hides_the_key(cluster: Path) -> None:
    material = load_material(files_of(cluster, "quorum-1"))
    assert material.name == "quorum-1"
    assert material.key == (cluster / "quorum-1.key").read_bytes()
    assert material.certificate == (cluster / "quorum-1.crt").read_bytes()
    assert material.ca == (cluster / "ca.crt").read_bytes()
    assert "PRIVATE" not in repr(material)


@pytest.mark.parametrize("part", ["certificate", "key", "ca"])
def test_a_file_that_is_missing_or_something_else_is_named(
    part: str, cluster: Path, tmp_path: Path
) -> None:
    paths = {
        name: getattr(files_of(cluster, "quorum-1"), name) for name in ("certificate", "key", "ca")
    }
    bad = tmp_path / "bad.pem"
    files = TlsFiles(**{**paths, part: str(bad)})
    refused(files, "bad.pem does not exist")
    bad.mkdir()
    refused(files, "bad.pem: Is a directory")
    bad.rmdir()
    bad.write_text("garbage")
    refused(files, r"bad.pem holds no (certificate|private key) in PEM")
    bad.write_bytes(b"-" * (1 << 21))
    refused(files, "bad.pem is too large")


def test_files_of_different_nodes_or_authorities_are_refused(cluster: Path, stranger: Path) -> None:
    one, two = files_of(cluster, "quorum-1"), files_of(cluster, "quorum-2")
    mixed = TlsFiles(certificate=one.certificate, key=two.key, ca=one.ca)
    refused(mixed, "is not the key of the certificate")
    foreign = TlsFiles(certificate=one.certificate, key=one.key, ca=str(stranger / "ca.crt"))
    refused(foreign, "was not issued by the authority")


def test_a_certificate_before_or_after_its_time_is_refused(cluster: Path) -> None:
    files = files_of(cluster, "quorum-1")
    with pytest.raises(UserError, match="expired on"):
        load_material(files, now=NOW + timedelta(40))
    with pytest.raises(UserError, match="check this machine's clock"):
        load_material(files, now=NOW - timedelta(1))


def test_an_encrypted_key_is_told_and_nobody_is_asked_for_a_password(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    assert tls("init", str(tmp_path), "--nodes", "a") == 0
    key = load_pem_private_key((tmp_path / "a.key").read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    (tmp_path / "a.key").write_bytes(locked)
    refused(files_of(tmp_path, "a"), "is encrypted; decrypt it")


def test_a_node_never_outlives_its_authority() -> None:
    authority = Authority.create("a", now=NOW, days=1)
    pair = Authority.load(authority.pair).issue("n", ["10.1.1.1"], now=NOW, days=36_500)
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    assert certificate.not_valid_after_utc <= authority.valid_until
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert ip_address("10.1.1.1") in names.get_values_for_type(x509.IPAddress)


def test_an_authority_is_loaded_only_from_its_own_pair() -> None:
    one, two = (Authority.create("a", now=NOW, days=1).pair for _ in range(2))
    with pytest.raises(ValueError, match="do not belong together"):
        Authority.load(PemPair(certificate=one.certificate, key=two.key))
