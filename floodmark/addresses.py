"""Addresses of listeners, and the rule about those that others can reach.

Nothing here opens a socket or asks a name server: what an address is must not depend on the
network that it is read in.
"""

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

from floodmark.errors import UserError

MOST_PORT: Final = 65_535
_LOOPBACK_NAME: Final = "localhost"


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A host (a name or an IP address; empty: every interface) and a port (0: any free one)."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """From `host:port` or `[v6]:port`; a `ValueError` says what is wrong."""
        host, colon, port = text.strip().rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
            IPv6Address(host.partition("%")[0])  # its ValueError names the address
        elif ":" in host:
            raise ValueError("an IPv6 address goes in brackets, as in [::1]:9092")
        if not colon or not port.isascii() or not port.isdigit() or int(port) > MOST_PORT:
            raise ValueError("it is not host:port")
        if any(char.isspace() or char in "/@,[]" for char in host):
            raise ValueError(f"{host!r} is no host")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener there.

    A name is not looked up, and so counts as reachable: what it means can change any time.
    """
    if host.lower().rstrip(".") == _LOOPBACK_NAME:
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def refuse_insecure(host: str, *, tls: bool, insecure: bool) -> None:
    """Refuses a listener that others can reach and that anybody could read and write."""
    if tls or insecure or is_loopback(host):
        return
    raise UserError(
        f"a listener on {host or 'every interface'} without TLS is open to everybody there",
        "set ssl.certificate.location, ssl.key.location and ssl.ca.location"
        " ('floodmark tls init' makes such files), or say insecure=true",
    )
