"""The requests and responses of Kafka, one module per API.

A module also holds the structs inside its messages, under Kafka's own names for them.
"""

from kafka_wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafka_wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from kafka_wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from kafka_wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafka_wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kafka_wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kafka_wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafka_wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from kafka_wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kafka_wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafka_wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kafka_wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafka_wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kafka_wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafka_wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kafka_wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kafka_wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafka_wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafka_wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kafka_wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kafka_wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kafka_wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kafka_wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kafka_wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kafka_wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kafka_wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafka_wire.messages.fetch import FetchRequest, FetchResponse
from kafka_wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka_wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafka_wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka_wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka_wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kafka_wire.messages.metadata import MetadataRequest, MetadataResponse
from kafka_wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafka_wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafka_wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka_wire.messages.produce import ProduceRequest, ProduceResponse
from kafka_wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafka_wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kafka_wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kafka_wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kafka_wire.schema import Request, Response

REQUESTS: dict[int, type[Request]] = {
    request.api_key: request
    for request in (
        ProduceRequest,
        FetchRequest,
        ListOffsetsRequest,
        MetadataRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        FindCoordinatorRequest,
        JoinGroupRequest,
        HeartbeatRequest,
        LeaveGroupRequest,
        SyncGroupRequest,
        DescribeGroupsRequest,
        ListGroupsRequest,
        SaslHandshakeRequest,
        ApiVersionsRequest,
        CreateTopicsRequest,
        DeleteTopicsRequest,
        DeleteRecordsRequest,
        InitProducerIdRequest,
        OffsetForLeaderEpochRequest,
        AddPartitionsToTxnRequest,
        AddOffsetsToTxnRequest,
        EndTxnRequest,
        WriteTxnMarkersRequest,
        TxnOffsetCommitRequest,
        DescribeAclsRequest,
        CreateAclsRequest,
        DeleteAclsRequest,
        DescribeConfigsRequest,
        AlterConfigsRequest,
        DescribeLogDirsRequest,
        SaslAuthenticateRequest,
        CreatePartitionsRequest,
        DeleteGroupsRequest,
        ElectLeadersRequest,
        IncrementalAlterConfigsRequest,
        AlterPartitionReassignmentsRequest,
        ListPartitionReassignmentsRequest,
        OffsetDeleteRequest,
        DescribeClientQuotasRequest,
        AlterClientQuotasRequest,
        DescribeUserScramCredentialsRequest,
        AlterUserScramCredentialsRequest,
        DescribeQuorumRequest,
        UpdateFeaturesRequest,
        DescribeClusterRequest,
        DescribeProducersRequest,
        DescribeTransactionsRequest,
        ListTransactionsRequest,
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupDescribeRequest,
        DescribeTopicPartitionsRequest,
    )
}
"""Every request by its API key."""

RESPONSES: dict[int, type[Response]] = {
    response.api_key: response
    for response in (
        ProduceResponse,
        FetchResponse,
        ListOffsetsResponse,
        MetadataResponse,
        OffsetCommitResponse,
        OffsetFetchResponse,
        FindCoordinatorResponse,
        JoinGroupResponse,
        HeartbeatResponse,
        LeaveGroupResponse,
        SyncGroupResponse,
        DescribeGroupsResponse,
        ListGroupsResponse,
        SaslHandshakeResponse,
        ApiVersionsResponse,
        CreateTopicsResponse,
        DeleteTopicsResponse,
        DeleteRecordsResponse,
        InitProducerIdResponse,
        OffsetForLeaderEpochResponse,
        AddPartitionsToTxnResponse,
        AddOffsetsToTxnResponse,
        EndTxnResponse,
        WriteTxnMarkersResponse,
        TxnOffsetCommitResponse,
        DescribeAclsResponse,
        CreateAclsResponse,
        DeleteAclsResponse,
        DescribeConfigsResponse,
        AlterConfigsResponse,
        DescribeLogDirsResponse,
        SaslAuthenticateResponse,
        CreatePartitionsResponse,
        DeleteGroupsResponse,
        ElectLeadersResponse,
        IncrementalAlterConfigsResponse,
        AlterPartitionReassignmentsResponse,
        ListPartitionReassignmentsResponse,
        OffsetDeleteResponse,
        DescribeClientQuotasResponse,
        AlterClientQuotasResponse,
        DescribeUserScramCredentialsResponse,
        AlterUserScramCredentialsResponse,
        DescribeQuorumResponse,
        UpdateFeaturesResponse,
        DescribeClusterResponse,
        DescribeProducersResponse,
        DescribeTransactionsResponse,
        ListTransactionsResponse,
        ConsumerGroupHeartbeatResponse,
        ConsumerGroupDescribeResponse,
        DescribeTopicPartitionsResponse,
    )
}
"""Every response by its API key."""

__all__ = [
    "REQUESTS",
    "RESPONSES",
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AlterClientQuotasRequest",
    "AlterClientQuotasResponse",
    "AlterConfigsRequest",
    "AlterConfigsResponse",
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "AlterUserScramCredentialsRequest",
    "AlterUserScramCredentialsResponse",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "CreateAclsRequest",
    "CreateAclsResponse",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeleteAclsRequest",
    "DeleteAclsResponse",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeAclsRequest",
    "DescribeAclsResponse",
    "DescribeClientQuotasRequest",
    "DescribeClientQuotasResponse",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "DescribeQuorumRequest",
    "DescribeQuorumResponse",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsResponse",
    "DescribeTransactionsRequest",
    "DescribeTransactionsResponse",
    "DescribeUserScramCredentialsRequest",
    "DescribeUserScramCredentialsResponse",
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "EndTxnRequest",
    "EndTxnResponse",
    "FetchRequest",
    "FetchResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListPartitionReassignmentsRequest",
    "ListPartitionReassignmentsResponse",
    "ListTransactionsRequest",
    "ListTransactionsResponse",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetDeleteRequest",
    "OffsetDeleteResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "ProduceRequest",
    "ProduceResponse",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
    "UpdateFeaturesRequest",
    "UpdateFeaturesResponse",
    "WriteTxnMarkersRequest",
    "WriteTxnMarkersResponse",
]
