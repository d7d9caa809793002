"""A valid request of every API of administration, in every version, for a real broker."""

from kafka_wire.api_keys import ApiKey
from kafka_wire.messages import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
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
    list_groups,
    list_partition_reassignments,
    list_transactions,
    offset_delete,
    update_features,
)
from kafka_wire.schema import Request
from tests.wire.kafka_requests import (
    CLIENT_REQUESTS,
    GROUP,
    MISSING_TOPIC,
    NEW_GROUP,
    TIMEOUT_MS,
    TOPIC,
    TRANSACTIONAL_ID,
    MakeRequest,
    World,
    ask,
)

TOPIC_RESOURCE = 2
READ, ALLOW = 3, 3
SET = 0
SCRAM_SHA_256 = 1
PRINCIPAL = "User:alice"
USER = "alice"


def _create_topics(_: World, version: int) -> Request:
    """One that can be created and one that cannot."""
    return create_topics.CreateTopicsRequest(
        topics=[
            create_topics.CreatableTopic(
                name=name,
                num_partitions=1,
                replication_factor=1,
                assignments=[],
                configs=[create_topics.CreatableTopicConfig(name="retention.ms", value="60000")],
            )
            for name in (f"created-{version}", TOPIC)
        ]
    )


def _delete_topics(_: World, version: int) -> Request:
    if version < 6:
        return delete_topics.DeleteTopicsRequest(
            topic_names=[MISSING_TOPIC, f"created-{version}"], timeout_ms=TIMEOUT_MS
        )
    unknown = delete_topics.DeleteTopicState(topic_id=b"?" * 16)
    named = delete_topics.DeleteTopicState(name=f"created-{version}", topic_id=bytes(16))
    return delete_topics.DeleteTopicsRequest(topics=[unknown, named], timeout_ms=TIMEOUT_MS)


def _create_partitions(_: World, version: int) -> Request:
    wanted = create_partitions.CreatePartitionsTopic(name=TOPIC, count=0, assignments=None)
    return create_partitions.CreatePartitionsRequest(
        topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=True
    )


def _delete_records(_: World, version: int) -> Request:
    partition = delete_records.DeleteRecordsPartition(partition_index=0, offset=0)
    return delete_records.DeleteRecordsRequest(
        topics=[delete_records.DeleteRecordsTopic(name=TOPIC, partitions=[partition])],
        timeout_ms=TIMEOUT_MS,
    )


def _elect_leaders(_: World, version: int) -> Request:
    return elect_leaders.ElectLeadersRequest(
        topic_partitions=[elect_leaders.TopicPartitions(topic=TOPIC, partitions=[0])]
    )


def _alter_partition_reassignments(_: World, version: int) -> Request:
    """Cancels what is not going on."""
    partition = alter_partition_reassignments.ReassignablePartition(partition_index=0)
    return alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        topics=[alter_partition_reassignments.ReassignableTopic(name=TOPIC, partitions=[partition])]
    )


def _list_partition_reassignments(_: World, version: int) -> Request:
    return list_partition_reassignments.ListPartitionReassignmentsRequest()


def _describe_configs(_: World, version: int) -> Request:
    return describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(
                resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None
            )
            for name in (TOPIC, MISSING_TOPIC)
        ],
        include_synonyms=True,
        include_documentation=version >= 3,
    )


def _alter_configs(_: World, version: int) -> Request:
    config = alter_configs.AlterableConfig(name="retention.ms", value="60000")
    return alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=TOPIC_RESOURCE, resource_name=name, configs=[config]
            )
            for name in (TOPIC, MISSING_TOPIC)
        ],
        validate_only=False,
    )


def _incremental_alter_configs(_: World, version: int) -> Request:
    config = incremental_alter_configs.AlterableConfig(
        name="retention.ms", config_operation=SET, value="60000"
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=TOPIC_RESOURCE, resource_name=name, configs=[config]
            )
            for name in (TOPIC, MISSING_TOPIC)
        ],
        validate_only=False,
    )


def _describe_log_dirs(_: World, version: int) -> Request:
    return describe_log_dirs.DescribeLogDirsRequest(topics=None)


def _describe_topic_partitions(_: World, version: int) -> Request:
    """With room for one of two, so that the answer has a cursor."""
    return describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=[
            describe_topic_partitions.TopicRequest(name=name)
            for name in ("__consumer_offsets", TOPIC)
        ],
        response_partition_limit=1,
    )


def _describe_cluster(_: World, version: int) -> Request:
    return describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)


def _describe_quorum(_: World, version: int) -> Request:
    partition = describe_quorum.PartitionData(partition_index=0)
    return describe_quorum.DescribeQuorumRequest(
        topics=[describe_quorum.TopicData(topic_name="__cluster_metadata", partitions=[partition])]
    )


def _update_features(_: World, version: int) -> Request:
    """To the level that it has; from 2 on, where only failures are told, to none that there is."""
    feature, level = ("transaction.version", 2) if version < 2 else ("no.such.feature", 9)
    update = update_features.FeatureUpdateKey(feature=feature, max_version_level=level)
    return update_features.UpdateFeaturesRequest(feature_updates=[update])


def _describe_producers(_: World, version: int) -> Request:
    return describe_producers.DescribeProducersRequest(
        topics=[describe_producers.TopicRequest(name=TOPIC, partition_indexes=[0])]
    )


def _describe_transactions(_: World, version: int) -> Request:
    return describe_transactions.DescribeTransactionsRequest(transactional_ids=[TRANSACTIONAL_ID])


def _list_transactions(_: World, version: int) -> Request:
    return list_transactions.ListTransactionsRequest(
        state_filters=["Ongoing", "NoSuchState"], producer_id_filters=[]
    )


# Groups


def _list_groups(_: World, version: int) -> Request:
    return list_groups.ListGroupsRequest()


def _describe_groups(world: World, version: int) -> Request:
    group_id = f"described-{version}"
    world.join(group_id)
    return describe_groups.DescribeGroupsRequest(
        groups=[group_id, "no-such-group"], include_authorized_operations=version >= 3
    )


def _consumer_group_describe(world: World, version: int) -> Request:
    heartbeat = CLIENT_REQUESTS[ApiKey.CONSUMER_GROUP_HEARTBEAT](world, 0)
    ask(world.client, heartbeat, 0, consumer_group_heartbeat.ConsumerGroupHeartbeatResponse)
    return consumer_group_describe.ConsumerGroupDescribeRequest(
        group_ids=[f"{NEW_GROUP}-0"], include_authorized_operations=True
    )


def _delete_groups(_: World, version: int) -> Request:
    return delete_groups.DeleteGroupsRequest(groups_names=["no-such-group"])


def _offset_delete(_: World, version: int) -> Request:
    partition = offset_delete.OffsetDeleteRequestPartition(partition_index=0)
    return offset_delete.OffsetDeleteRequest(
        group_id=GROUP,
        topics=[offset_delete.OffsetDeleteRequestTopic(name=TOPIC, partitions=[partition])],
    )


# Security


def _create_acls(_: World, version: int) -> Request:
    creation = create_acls.AclCreation(
        resource_type=TOPIC_RESOURCE,
        resource_name=TOPIC,
        principal=PRINCIPAL,
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    return create_acls.CreateAclsRequest(creations=[creation])


def _describe_acls(_: World, version: int) -> Request:
    return describe_acls.DescribeAclsRequest(
        resource_type_filter=TOPIC_RESOURCE,
        resource_name_filter=TOPIC,
        principal_filter=None,
        host_filter=None,
        operation=READ,
        permission_type=ALLOW,
    )


def _delete_acls(world: World, version: int) -> Request:
    """Of one that is there, which it creates."""
    ask(world.client, _create_acls(world, version), version, create_acls.CreateAclsResponse)
    matching = delete_acls.DeleteAclsFilter(
        resource_type_filter=TOPIC_RESOURCE,
        resource_name_filter=TOPIC,
        principal_filter=PRINCIPAL,
        host_filter=None,
        operation=READ,
        permission_type=ALLOW,
    )
    return delete_acls.DeleteAclsRequest(filters=[matching])


def _alter_client_quotas(_: World, version: int) -> Request:
    return alter_client_quotas.AlterClientQuotasRequest(
        entries=[
            alter_client_quotas.EntryData(
                entity=[alter_client_quotas.EntityData(entity_type="user", entity_name=name)],
                ops=[
                    alter_client_quotas.OpData(key="producer_byte_rate", value=1.5e6, remove=False)
                ],
            )
            for name in (USER, None)
        ],
        validate_only=False,
    )


def _describe_client_quotas(_: World, version: int) -> Request:
    return describe_client_quotas.DescribeClientQuotasRequest(components=[], strict=False)


def _alter_user_scram_credentials(_: World, version: int) -> Request:
    return alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        deletions=[
            alter_user_scram_credentials.ScramCredentialDeletion(
                name="nobody", mechanism=SCRAM_SHA_256
            )
        ],
        upsertions=[
            alter_user_scram_credentials.ScramCredentialUpsertion(
                name=USER,
                mechanism=SCRAM_SHA_256,
                iterations=4096,
                salt=b"salt",
                salted_password=bytes(32),
            )
        ],
    )


def _describe_user_scram_credentials(_: World, version: int) -> Request:
    return describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None)


ADMIN_REQUESTS: dict[ApiKey, MakeRequest] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_partition_reassignments,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
    ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
    ApiKey.DESCRIBE_QUORUM: _describe_quorum,
    ApiKey.UPDATE_FEATURES: _update_features,
    ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe_transactions,
    ApiKey.LIST_TRANSACTIONS: _list_transactions,
    ApiKey.LIST_GROUPS: _list_groups,
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _consumer_group_describe,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DESCRIBE_ACLS: _describe_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _describe_client_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_user_scram_credentials,
}
"""Changes come before what describes them."""
