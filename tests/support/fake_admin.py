"""The administration of a `FakeBroker`: every change succeeds, and changes nothing."""

from typing import TYPE_CHECKING

from kafka_wire.api_keys import ApiKey
from kafka_wire.error_codes import ErrorCode
from kafka_wire.messages import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    consumer_group_describe,
    create_acls,
    create_partitions,
    delete_acls,
    delete_groups,
    delete_records,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    incremental_alter_configs,
    offset_delete,
    update_features,
)
from kafka_wire.schema import Response
from tests.support.fake_topics import CLUSTER_ID, LEADER_EPOCH, topic_id

if TYPE_CHECKING:
    from tests.support.fake_broker import FakeBroker, Handler, Received


def admin_handlers(broker: "FakeBroker") -> "dict[int, Handler]":
    return {
        ApiKey.DESCRIBE_CLUSTER: lambda _: _describe_cluster(broker),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda request: _describe_topic_partitions(
            broker, request
        ),
        ApiKey.DESCRIBE_QUORUM: lambda _: _describe_quorum(broker),
        ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
        ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
        ApiKey.DESCRIBE_TRANSACTIONS: _describe_transactions,
        ApiKey.UPDATE_FEATURES: _update_features,
        ApiKey.CREATE_PARTITIONS: _create_partitions,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
        ApiKey.DESCRIBE_CONFIGS: _describe_configs,
        ApiKey.ALTER_CONFIGS: _alter_configs,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
        ApiKey.DELETE_RECORDS: _delete_records,
        ApiKey.ELECT_LEADERS: _elect_leaders,
        ApiKey.CREATE_ACLS: _create_acls,
        ApiKey.DELETE_ACLS: _delete_acls,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: _describe_client_quotas,
        ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_user_scram_credentials,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
        ApiKey.DESCRIBE_GROUPS: _describe_groups,
        ApiKey.CONSUMER_GROUP_DESCRIBE: _consumer_group_describe,
        ApiKey.DELETE_GROUPS: _delete_groups,
        ApiKey.OFFSET_DELETE: _offset_delete,
    }


def _describe_cluster(broker: "FakeBroker") -> Response:
    return describe_cluster.DescribeClusterResponse(
        cluster_id=CLUSTER_ID,
        controller_id=broker.node_id,
        brokers=[
            describe_cluster.DescribeClusterBroker(
                broker_id=broker.node_id, host=broker.host, port=broker.port
            )
        ],
    )


def _describe_topic_partitions(broker: "FakeBroker", request: "Received") -> Response:
    body = request.expect(describe_topic_partitions.DescribeTopicPartitionsRequest)
    return describe_topic_partitions.DescribeTopicPartitionsResponse(
        topics=[
            describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
                name=topic.name,
                topic_id=topic_id(topic.name),
                partitions=[
                    describe_topic_partitions.DescribeTopicPartitionsResponsePartition(
                        partition_index=partition,
                        leader_id=broker.node_id,
                        leader_epoch=LEADER_EPOCH,
                        replica_nodes=[broker.node_id],
                        isr_nodes=[broker.node_id],
                        eligible_leader_replicas=[],  # the Java client cannot read a null
                        last_known_elr=[],
                        offline_replicas=[],
                    )
                    for partition in range(broker.topics.partitions.get(topic.name, 1))
                ],
            )
            for topic in body.topics
        ]
    )


def _describe_quorum(broker: "FakeBroker") -> Response:
    voter = describe_quorum.ReplicaState(replica_id=broker.node_id, log_end_offset=1)
    partition = describe_quorum.PartitionDataResult(
        partition_index=0,
        leader_id=broker.node_id,
        leader_epoch=1,
        high_watermark=1,
        current_voters=[voter],
        observers=[],
    )
    return describe_quorum.DescribeQuorumResponse(
        topics=[
            describe_quorum.TopicDataResult(topic_name="__cluster_metadata", partitions=[partition])
        ]
    )


def _describe_log_dirs(_: "Received") -> Response:
    return describe_log_dirs.DescribeLogDirsResponse(
        results=[describe_log_dirs.DescribeLogDirsResult(log_dir="/data", topics=[])]
    )


def _describe_producers(request: "Received") -> Response:
    return describe_producers.DescribeProducersResponse(
        topics=[
            describe_producers.TopicResponse(
                name=topic.name,
                partitions=[
                    describe_producers.PartitionResponse(
                        partition_index=partition, active_producers=[]
                    )
                    for partition in topic.partition_indexes
                ],
            )
            for topic in request.expect(describe_producers.DescribeProducersRequest).topics
        ]
    )


def _describe_transactions(request: "Received") -> Response:
    body = request.expect(describe_transactions.DescribeTransactionsRequest)
    return describe_transactions.DescribeTransactionsResponse(
        transaction_states=[
            describe_transactions.TransactionState(
                transactional_id=transactional_id,
                transaction_state="Empty",
                transaction_timeout_ms=1000,
                transaction_start_time_ms=-1,
                producer_id=1,
                producer_epoch=0,
                topics=[],
            )
            for transactional_id in body.transactional_ids
        ]
    )


def _update_features(request: "Received") -> Response:
    body = request.expect(update_features.UpdateFeaturesRequest)
    return update_features.UpdateFeaturesResponse(
        results=[
            update_features.UpdatableFeatureResult(feature=update.feature)
            for update in body.feature_updates
        ]
    )


def _create_partitions(request: "Received") -> Response:
    return create_partitions.CreatePartitionsResponse(
        results=[
            create_partitions.CreatePartitionsTopicResult(name=topic.name)
            for topic in request.expect(create_partitions.CreatePartitionsRequest).topics
        ]
    )


def _alter_partition_reassignments(request: "Received") -> Response:
    body = request.expect(alter_partition_reassignments.AlterPartitionReassignmentsRequest)
    return alter_partition_reassignments.AlterPartitionReassignmentsResponse(
        responses=[
            alter_partition_reassignments.ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    alter_partition_reassignments.ReassignablePartitionResponse(
                        partition_index=partition.partition_index
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in body.topics
        ]
    )


def _describe_configs(request: "Received") -> Response:
    body = request.expect(describe_configs.DescribeConfigsRequest)
    policy = describe_configs.DescribeConfigsResourceResult(
        name="cleanup.policy",
        value="delete",
        read_only=False,
        config_source=5,  # DEFAULT_CONFIG
        is_sensitive=False,
        synonyms=[],
        config_type=7,  # LIST
    )
    return describe_configs.DescribeConfigsResponse(
        results=[
            describe_configs.DescribeConfigsResult(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[policy],
            )
            for resource in body.resources
        ]
    )


def _alter_configs(request: "Received") -> Response:
    return alter_configs.AlterConfigsResponse(
        responses=[
            alter_configs.AlterConfigsResourceResponse(
                resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            for resource in request.expect(alter_configs.AlterConfigsRequest).resources
        ]
    )


def _incremental_alter_configs(request: "Received") -> Response:
    body = request.expect(incremental_alter_configs.IncrementalAlterConfigsRequest)
    return incremental_alter_configs.IncrementalAlterConfigsResponse(
        responses=[
            incremental_alter_configs.AlterConfigsResourceResponse(
                resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            for resource in body.resources
        ]
    )


def _delete_records(request: "Received") -> Response:
    return delete_records.DeleteRecordsResponse(
        topics=[
            delete_records.DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    delete_records.DeleteRecordsPartitionResult(
                        partition_index=partition.partition_index, low_watermark=0
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.expect(delete_records.DeleteRecordsRequest).topics
        ]
    )


def _elect_leaders(request: "Received") -> Response:
    return elect_leaders.ElectLeadersResponse(
        replica_election_results=[
            elect_leaders.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    elect_leaders.PartitionResult(partition_id=partition)
                    for partition in topic.partitions
                ],
            )
            for topic in request.expect(elect_leaders.ElectLeadersRequest).topic_partitions or []
        ]
    )


def _create_acls(request: "Received") -> Response:
    return create_acls.CreateAclsResponse(
        results=[
            create_acls.AclCreationResult()
            for _ in request.expect(create_acls.CreateAclsRequest).creations
        ]
    )


def _delete_acls(request: "Received") -> Response:
    return delete_acls.DeleteAclsResponse(
        filter_results=[
            delete_acls.DeleteAclsFilterResult(matching_acls=[])
            for _ in request.expect(delete_acls.DeleteAclsRequest).filters
        ]
    )


def _describe_client_quotas(_: "Received") -> Response:
    return describe_client_quotas.DescribeClientQuotasResponse(entries=[])


def _alter_client_quotas(request: "Received") -> Response:
    return alter_client_quotas.AlterClientQuotasResponse(
        entries=[
            alter_client_quotas.EntryDataResult(entity=entry.entity)
            for entry in request.expect(alter_client_quotas.AlterClientQuotasRequest).entries
        ]
    )


def _describe_user_scram_credentials(request: "Received") -> Response:
    body = request.expect(describe_user_scram_credentials.DescribeUserScramCredentialsRequest)
    return describe_user_scram_credentials.DescribeUserScramCredentialsResponse(
        results=[
            describe_user_scram_credentials.DescribeUserScramCredentialsResult(
                user=user.name, credential_infos=[]
            )
            for user in body.users or []
        ]
    )


def _alter_user_scram_credentials(request: "Received") -> Response:
    body = request.expect(alter_user_scram_credentials.AlterUserScramCredentialsRequest)
    users = [deletion.name for deletion in body.deletions]
    users += [upsertion.name for upsertion in body.upsertions]
    return alter_user_scram_credentials.AlterUserScramCredentialsResponse(
        results=[
            alter_user_scram_credentials.AlterUserScramCredentialsResult(user=user)
            for user in users
        ]
    )


def _describe_groups(request: "Received") -> Response:
    return describe_groups.DescribeGroupsResponse(
        groups=[
            describe_groups.DescribedGroup(
                group_id=group, group_state="Dead", protocol_type="", protocol_data="", members=[]
            )
            for group in request.expect(describe_groups.DescribeGroupsRequest).groups
        ]
    )


def _consumer_group_describe(request: "Received") -> Response:
    """No group is of the new kind, as the client hears here before it asks for the old kind."""
    body = request.expect(consumer_group_describe.ConsumerGroupDescribeRequest)
    return consumer_group_describe.ConsumerGroupDescribeResponse(
        groups=[
            consumer_group_describe.DescribedGroup(
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                group_id=group,
                group_state="",
                group_epoch=0,
                assignment_epoch=0,
                assignor_name="",
                members=[],
            )
            for group in body.group_ids
        ]
    )


def _delete_groups(request: "Received") -> Response:
    return delete_groups.DeleteGroupsResponse(
        results=[
            delete_groups.DeletableGroupResult(group_id=group)
            for group in request.expect(delete_groups.DeleteGroupsRequest).groups_names
        ]
    )


def _offset_delete(request: "Received") -> Response:
    return offset_delete.OffsetDeleteResponse(
        topics=[
            offset_delete.OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    offset_delete.OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.expect(offset_delete.OffsetDeleteRequest).topics
        ]
    )
