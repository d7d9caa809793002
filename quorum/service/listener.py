"""The gRPC listener of a voter: services, health, reflection, limits, TLS.

Health (grpc.health.v1):
- `""` and `floodmark.quorum.v1.QuorumService` serve while the voter knows a leader and has applied
  what that leader had committed: from then on its metadata stream is current.
- `floodmark.quorum.v1.ControllerService` serves only on the active controller.
"""

from typing import Final

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from floodmark.addresses import Address
from floodmark.errors import UserError
from floodmark.tls import TlsMaterial
from quorum.api import quorum_pb2 as pb
from quorum.api import quorum_pb2_grpc
from quorum.service.controller_service import ControllerService
from quorum.service.quorum_service import QuorumService

MAX_REQUEST_BYTES: Final = 4 << 20
MAX_CONCURRENT_CALLS: Final = 20_000
MAX_METADATA_BYTES: Final = 16 << 10
STOP_GRACE_S: Final = 1.0

CONTROLLER_SERVICE: Final = pb.DESCRIPTOR.services_by_name["ControllerService"].full_name
QUORUM_SERVICE: Final = pb.DESCRIPTOR.services_by_name["QuorumService"].full_name

_SERVING: Final = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING: Final = health_pb2.HealthCheckResponse.NOT_SERVING

OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    # Two processes must never share a port by mistake.
    ("grpc.so_reuseport", 0),
    # A peer that is gone without a word holds its streams open no longer than this.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # Clients ask every few seconds whether we are still there.
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Beyond its own limits gRPC cancels calls without a reason; ours refuse them with one.
    ("grpc.server.max_pending_requests", 2 * MAX_CONCURRENT_CALLS),
    ("grpc.server.max_pending_requests_hard_limit", 2 * MAX_CONCURRENT_CALLS),
)


class GrpcListener:
    """Listens from `start` to `stop`."""

    def __init__(self, controller: ControllerService, quorum: QuorumService) -> None:
        self._server = grpc.aio.server(
            options=OPTIONS, maximum_concurrent_rpcs=MAX_CONCURRENT_CALLS
        )
        self._health = health.aio.HealthServicer()
        self._told: dict[str, bool] = {}
        quorum_pb2_grpc.add_ControllerServiceServicer_to_server(controller, self._server)
        quorum_pb2_grpc.add_QuorumServiceServicer_to_server(quorum, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (CONTROLLER_SERVICE, QUORUM_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)

    async def start(self, address: Address, tls: TlsMaterial | None = None) -> Address:
        """Returns the address with the port that it got."""
        await self.set_health(is_ready=False, is_active=False)
        where = str(address) if address.host else f"[::]:{address.port}"
        try:
            if tls is None:
                port = self._server.add_insecure_port(where)
            else:
                port = self._server.add_secure_port(where, server_credentials(tls))
        except RuntimeError as error:
            raise UserError(
                f"cannot listen on {address}: {error}",
                "choose another port or stop what listens there",
            ) from None
        await self._server.start()
        return Address(address.host, port)

    async def set_health(self, *, is_ready: bool, is_active: bool) -> None:
        states = {"": is_ready, QUORUM_SERVICE: is_ready, CONTROLLER_SERVICE: is_active}
        for name, serves in states.items():
            if self._told.get(name) is not serves:
                self._told[name] = serves
                await self._health.set(name, _SERVING if serves else _NOT_SERVING)

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Takes no more calls and lets those at work end within the time."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)


def server_credentials(tls: TlsMaterial) -> grpc.ServerCredentials:
    """Both sides show a certificate of the cluster's authority."""
    return grpc.ssl_server_credentials(
        [(tls.key, tls.certificate)], root_certificates=tls.ca, require_client_auth=True
    )
