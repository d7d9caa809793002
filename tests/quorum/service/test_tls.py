"""The gRPC listener under TLS: nobody without a certificate of the cluster's gets in."""

import dataclasses

import pytest
import trustme

from floodmark.addresses import Address
from floodmark.tls import TlsMaterial
from quorum.client import QuorumClient
from quorum.errors import DeadlineError
from quorum.metadata.settings import ControllerSettings
from quorum.voter import Listeners, Voter, VoterOptions
from tests.quorum.service.voters import CLUSTER_ID, LOOPBACK, join, on_loop, registration
from tests.support.fake_raft import FakeQuorum


def material(authority: trustme.CA, name: str) -> TlsMaterial:
    issued = authority.issue_cert("127.0.0.1", common_name=name)
    return TlsMaterial(
        certificate=b"".join(blob.bytes() for blob in issued.cert_chain_pems),
        key=issued.private_key_pem.bytes(),
        ca=authority.cert_pem.bytes(),
        name=name,
    )


@on_loop
async def test_only_certificates_of_the_clusters_authority_get_in() -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    raft = FakeQuorum(1)
    engine = raft.voters[1]
    options = VoterOptions(
        settings=ControllerSettings(cluster_id=CLUSTER_ID), address_of=lambda _: None
    )
    voter = Voter(options, lambda machine, on_fatal: engine)
    engine.machine = voter.machine
    any_port = Address(LOOPBACK, 0)
    await voter.start(
        Listeners(controller=any_port, http=any_port, tls=material(authority, "quorum-1"))
    )
    raft.elect(1)
    where = [str(voter.controller_address)]
    try:
        async with QuorumClient(where, tls=material(authority, "broker-1")) as client:
            await join(client, 1)
        # Takes the cluster's word, and has none that the cluster takes.
        forged = dataclasses.replace(material(stranger, "broker-2"), ca=authority.cert_pem.bytes())
        for tls in (None, forged):
            async with QuorumClient(where, tls=tls) as client:
                with pytest.raises(DeadlineError):
                    await client.register_broker(registration(2), timeout_s=0.5)
        assert list(voter.machine.image.brokers) == [1]
    finally:
        await voter.stop()
        raft.close()
