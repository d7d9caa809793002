"""Make the certificates that the nodes of a cluster show to each other."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final

import typer

from floodmark.cli.options import OutputOption
from floodmark.errors import UserError
from floodmark.output import Column, OutputFormat, Plain, Row, emit
from floodmark.tls_authority import MOST_NAME, Authority, PemPair

app = typer.Typer(add_completion=False, no_args_is_help=True)

CA: Final = "ca"
CERTIFICATE_SUFFIX: Final = ".crt"
KEY_SUFFIX: Final = ".key"
DEFAULT_DAYS: Final = 825
MOST_DAYS: Final = 36_500
DEFAULT_NODES: Final = ("quorum-1", "quorum-2", "quorum-3", "broker-1", "broker-2", "broker-3")

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_HOST: Final = re.compile(r"(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_KEY_MODE: Final = 0o600
_CERTIFICATE_MODE: Final = 0o644
_DIRECTORY_MODE: Final = 0o700
_COLUMNS: Final = (
    Column(key="name", title="NAME"),
    Column(key="certificate", title="CERTIFICATE"),
    Column(key="key", title="KEY"),
    Column(key="hosts", title="HOSTS"),
)

DirectoryArgument = Annotated[Path, typer.Argument(help="Where the files are.")]
HostsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--hosts", help="Names or addresses of every node, or NODE=HOST of one. May be repeated."
    ),
]
DaysOption = Annotated[
    int, typer.Option("--days", min=1, max=MOST_DAYS, help="How long certificates are valid.")
]


@app.command()
def init(
    directory: DirectoryArgument,
    nodes: Annotated[
        list[str] | None,
        typer.Option("--nodes", help="The nodes' names, separated by commas. May be repeated."),
    ] = None,
    hosts: HostsOption = None,
    days: DaysOption = DEFAULT_DAYS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Make an authority (ca.crt, ca.key), and a certificate and key for each node."""
    now = datetime.now(UTC)
    names = _names(nodes or DEFAULT_NODES)
    hosts_of = _hosts(hosts or (), names)
    _refuse_existing(directory, (CA, *names))
    authority = Authority.create("Floodmark cluster authority", now=now, days=days)
    pairs = {name: authority.issue(name, hosts_of[name], now=now, days=days) for name in names}
    write_pairs(directory, {CA: authority.pair, **pairs})
    _report(directory, {CA: (), **hosts_of}, output)


@app.command()
def add(
    directory: DirectoryArgument,
    nodes: Annotated[
        list[str], typer.Option("--nodes", help="The new nodes' names, separated by commas.")
    ],
    hosts: HostsOption = None,
    days: DaysOption = DEFAULT_DAYS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Make certificates for more nodes, with the authority that `init` has made."""
    now = datetime.now(UTC)
    names = _names(nodes)
    hosts_of = _hosts(hosts or (), names)
    authority = _load_authority(directory, now)
    _refuse_existing(directory, names)
    pairs = {name: authority.issue(name, hosts_of[name], now=now, days=days) for name in names}
    write_pairs(directory, pairs)
    _report(directory, hosts_of, output)


def _names(given: Iterable[str]) -> Sequence[str]:
    names = list(dict.fromkeys(_split(given)))
    for name in names:
        if not _NAME.fullmatch(name) or len(name) > MOST_NAME:
            remedy = f"use at most {MOST_NAME} letters, digits, dots, dashes and underscores"
            raise UserError(f"{name!r} cannot be the name of a node", remedy)
        if name == CA:
            raise UserError(f"{CA} is the authority's name", "choose another for the node")
    if not names:
        raise UserError("no node is named", "name some: --nodes quorum-1,broker-1")
    return names


def _hosts(given: Iterable[str], names: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """The hosts of each node: those of all, then its own."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for item in _split(given):
        node, equals, host = item.rpartition("=")
        if equals and node not in found:
            raise UserError(f"{item}: no node is called {node}", f"use one of {', '.join(names)}")
        if not _is_host(host):
            raise UserError(f"{host!r} is no host", "use a DNS name or an IP address")
        for name in [node] if equals else names:
            found[name].append(host)
    return found


def _is_host(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return _HOST.fullmatch(text) is not None
    return True


def _split(given: Iterable[str]) -> Iterable[str]:
    return (part.strip() for text in given for part in text.split(",") if part.strip())


def _load_authority(directory: Path, now: datetime) -> Authority:
    certificate, key = _paths(directory, CA)
    for path in (certificate, key):
        if not path.exists():
            raise UserError(f"{path} does not exist", f"run 'floodmark tls init {directory}'")
    try:
        pair = PemPair(certificate=certificate.read_bytes(), key=key.read_bytes())
        authority = Authority.load(pair)
    except (ValueError, TypeError) as error:
        what = f"{certificate} and {key} are not an authority: {error}"
        raise UserError(what, "use files that 'floodmark tls init' has made") from None
    if authority.valid_until <= now:
        raise UserError(f"{certificate} has expired", "make a new authority in another directory")
    return authority


def _paths(directory: Path, name: str) -> tuple[Path, Path]:
    return directory / f"{name}{CERTIFICATE_SUFFIX}", directory / f"{name}{KEY_SUFFIX}"


def _refuse_existing(directory: Path, names: Iterable[str]) -> None:
    for path in (path for name in names for path in _paths(directory, name)):
        if path.exists() or path.is_symlink():
            raise UserError(f"{path} exists and is not replaced", "choose another directory")


def write_pairs(directory: Path, pairs: Mapping[str, PemPair]) -> None:
    """Writes all of the files or, if one cannot be written, none."""
    directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    written: list[Path] = []
    try:
        for name, pair in pairs.items():
            certificate, key = _paths(directory, name)
            for path, data, mode in (
                (key, pair.key, _KEY_MODE),
                (certificate, pair.certificate, _CERTIFICATE_MODE),
            ):
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
                written.append(path)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
    except OSError:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _report(directory: Path, hosts_of: Mapping[str, Sequence[str]], output: OutputFormat) -> None:
    rows: list[Row] = []
    for name, hosts in hosts_of.items():
        certificate, key = _paths(directory, name)
        rows.append(
            {"name": name, "certificate": str(certificate), "key": str(key), "hosts": list(hosts)}
        )
    document: Plain = {"directory": str(directory), "files": rows}
    emit(document, rows=rows, columns=_COLUMNS, output=output)
