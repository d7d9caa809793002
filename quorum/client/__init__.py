"""The quorum's client, for brokers and administrators."""

from quorum.client.client import QuorumClient
from quorum.client.metadata_stream import MetadataBatch, MetadataEvent, MetadataSnapshot

__all__ = ["MetadataBatch", "MetadataEvent", "MetadataSnapshot", "QuorumClient"]
