import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What the Java clients do in the tests: the sessions named in the arguments, some at a time.
 *
 * <p>Arguments are pairs of a session and the address of its broker. The program ends with 0 when
 * all of them went as they should.
 */
public final class ClientSession {
    private static final String TOPIC = "events";
    private static final String GROUP = "readers";
    private static final String TRANSACTIONAL_ID = "payments";
    private static final int TIMEOUT_MS = 10_000;
    private static final int RETRY_BACKOFF_MS = 5;
    private static final Duration TIMEOUT = Duration.ofMillis(TIMEOUT_MS);
    private static final Duration POLL = Duration.ofMillis(20);
    private static final String ASSIGNORS = "org.apache.kafka.clients.consumer.";

    /** Sessions mostly wait. */
    private static final int THREADS = 6;

    /** A member joins its group so often: by the second time it has partitions to tell of. */
    private static final int GENERATIONS = 2;

    private ClientSession() {}

    public static void main(String[] arguments) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        try {
            List<Future<?>> sessions = new ArrayList<>();
            for (int i = 0; i < arguments.length; i += 2) {
                String session = arguments[i];
                String address = arguments[i + 1];
                sessions.add(threads.submit(() -> run(session, address)));
            }
            for (Future<?> session : sessions) {
                session.get();
            }
        } finally {
            threads.shutdownNow();
        }
    }

    /** Returns nothing; as a Callable it may throw. */
    private static Void run(String session, String address) throws Exception {
        switch (session) {
            case "produce" -> produce(address);
            case "transactions" -> transactions(address);
            case "consume" -> consume(address);
            case "range" -> joinGroup(address, "RangeAssignor");
            case "sticky" -> joinGroup(address, "StickyAssignor");
            case "cooperative-sticky" -> joinGroup(address, "CooperativeStickyAssignor");
            case "new-group" -> joinNewGroup(address);
            case "administer" -> administer(address);
            default -> throw new IllegalArgumentException(session);
        }
        return null;
    }

    /** With every codec, every kind of acknowledgement, and as an idempotent producer. */
    private static void produce(String address) throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            produceOne(address, Map.of("compression.type", codec, "enable.idempotence", "false"));
        }
        for (String acks : List.of("0", "1")) {
            produceOne(address, Map.of("acks", acks, "enable.idempotence", "false"));
        }
        produceOne(address, Map.of());
    }

    private static void produceOne(String address, Map<String, Object> settings) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(address, settings)) {
            producer.send(record()).get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        }
    }

    /** Commits one with offsets in it, aborts another. */
    private static void transactions(String address) throws Exception {
        Map<String, Object> settings = Map.of("transactional.id", TRANSACTIONAL_ID);
        try (KafkaProducer<byte[], byte[]> producer = producer(address, settings);
                KafkaConsumer<byte[], byte[]> consumer = consumer(address, Map.of())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(record());
            producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(TOPIC, 0), new OffsetAndMetadata(1)),
                    consumer.groupMetadata());
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(record()).get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
            producer.abortTransaction();
        }
    }

    private static void consume(String address) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(address, Map.of())) {
            consumer.assign(List.of(new TopicPartition(TOPIC, 0)));
            takeOne(consumer);
            consumer.commitSync(TIMEOUT);
        }
    }

    private static void joinGroup(String address, String assignor) {
        Map<String, Object> settings =
                Map.of(
                        "partition.assignment.strategy", ASSIGNORS + assignor,
                        "heartbeat.interval.ms", 20,
                        "session.timeout.ms", TIMEOUT_MS);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(address, settings)) {
            consumer.subscribe(List.of(TOPIC));
            takeOne(consumer);
            while (consumer.groupMetadata().generationId() < GENERATIONS) {
                consumer.poll(POLL);
            }
        }
    }

    /** A group of the kind of KIP-848. */
    private static void joinNewGroup(String address) {
        Map<String, Object> settings = Map.of("group.protocol", "consumer");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(address, settings)) {
            consumer.subscribe(List.of(TOPIC));
            takeOne(consumer);
            consumer.commitSync(TIMEOUT);
        }
    }

    /** Asks everything at once; an old broker may answer that it does not know the question. */
    @SuppressWarnings({"deprecation", "removal"}) // both versions of the clients have these
    private static void administer(String address) throws Exception {
        TopicPartition partition = new TopicPartition(TOPIC, 0);
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
        AlterConfigOp change =
                new AlterConfigOp(
                        new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.SET);
        AclBinding acl =
                new AclBinding(
                        new ResourcePattern(ResourceType.TOPIC, TOPIC, PatternType.LITERAL),
                        new AccessControlEntry(
                                "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW));
        ClientQuotaEntity user = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "alice"));
        ClientQuotaAlteration quota =
                new ClientQuotaAlteration(
                        user, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1.5e6)));
        UserScramCredentialUpsertion credential =
                new UserScramCredentialUpsertion(
                        "alice",
                        new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096),
                        "password".getBytes());
        Map<String, Object> settings =
                Map.of(
                        "bootstrap.servers", address,
                        "default.api.timeout.ms", 2_000,
                        "request.timeout.ms", 1_000);
        Map<String, FeatureUpdate> features =
                Map.of("group.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE));
        try (Admin admin = Admin.create(settings)) {
            List<KafkaFuture<?>> asked = new ArrayList<>();
            asked.add(admin.createTopics(Set.of(new NewTopic(TOPIC, 2, (short) 1))).all());
            asked.add(admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(3))).all());
            asked.add(admin.listTopics().names());
            asked.add(admin.describeTopics(Set.of(TOPIC)).allTopicNames());
            asked.add(
                    admin.describeCluster(
                                    new DescribeClusterOptions().includeAuthorizedOperations(true))
                            .nodes());
            asked.add(admin.describeConfigs(Set.of(topic)).all());
            asked.add(admin.incrementalAlterConfigs(Map.of(topic, List.of(change))).all());
            asked.add(admin.listOffsets(Map.of(partition, OffsetSpec.latest())).all());
            asked.add(
                    admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(1))).all());
            asked.add(admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).all());
            asked.add(
                    admin.alterPartitionReassignments(
                                    Map.of(
                                            partition,
                                            Optional.of(new NewPartitionReassignment(List.of(0)))))
                            .all());
            asked.add(admin.listPartitionReassignments().reassignments());
            asked.add(admin.describeLogDirs(Set.of(0)).allDescriptions());
            asked.add(admin.describeProducers(Set.of(partition)).all());
            asked.add(admin.listTransactions().all());
            asked.add(admin.describeTransactions(Set.of(TRANSACTIONAL_ID)).all());
            asked.add(admin.describeMetadataQuorum().quorumInfo());
            asked.add(admin.describeFeatures().featureMetadata());
            asked.add(
                    admin.updateFeatures(features, new UpdateFeaturesOptions().validateOnly(true))
                            .all());
            asked.add(admin.createAcls(Set.of(acl)).all());
            asked.add(admin.describeAcls(acl.toFilter()).values());
            asked.add(admin.deleteAcls(Set.of(acl.toFilter())).all());
            asked.add(admin.alterClientQuotas(Set.of(quota)).all());
            asked.add(admin.describeClientQuotas(ClientQuotaFilter.all()).entities());
            asked.add(admin.alterUserScramCredentials(List.of(credential)).all());
            asked.add(admin.describeUserScramCredentials(List.of("alice")).all());
            asked.add(admin.listConsumerGroups().all());
            asked.add(admin.describeConsumerGroups(Set.of(GROUP)).all());
            asked.add(
                    admin.alterConsumerGroupOffsets(
                                    GROUP, Map.of(partition, new OffsetAndMetadata(1)))
                            .all());
            asked.add(admin.listConsumerGroupOffsets(GROUP).partitionsToOffsetAndMetadata());
            asked.add(admin.deleteConsumerGroupOffsets(GROUP, Set.of(partition)).all());
            asked.add(
                    admin.removeMembersFromConsumerGroup(
                                    GROUP,
                                    new RemoveMembersFromConsumerGroupOptions(
                                            Set.of(new MemberToRemove("instance"))))
                            .all());
            asked.add(admin.deleteConsumerGroups(Set.of(GROUP)).all());
            await(asked);
            await(List.of(admin.deleteTopics(Set.of(TOPIC)).all()));
        }
    }

    private static void await(Collection<KafkaFuture<?>> asked) throws Exception {
        for (KafkaFuture<?> future : asked) {
            try {
                future.get();
            } catch (ExecutionException failure) {
                if (!(failure.getCause() instanceof UnsupportedVersionException)) {
                    throw failure;
                }
            }
        }
    }

    private static ProducerRecord<byte[], byte[]> record() {
        ProducerRecord<byte[], byte[]> record =
                new ProducerRecord<>(TOPIC, 0, "key".getBytes(), "first ".repeat(50).getBytes());
        record.headers().add("trace", new byte[] {0, -1});
        record.headers().add("nothing", null);
        return record;
    }

    private static void takeOne(KafkaConsumer<byte[], byte[]> consumer) {
        long deadline = System.nanoTime() + TIMEOUT.toNanos();
        ConsumerRecords<byte[], byte[]> records;
        do {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("nothing arrived");
            }
            records = consumer.poll(POLL);
        } while (records.isEmpty());
    }

    private static KafkaProducer<byte[], byte[]> producer(
            String address, Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, address);
        all.put(ProducerConfig.RETRY_BACKOFF_MS_CONFIG, RETRY_BACKOFF_MS);
        all.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, TIMEOUT_MS);
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static KafkaConsumer<byte[], byte[]> consumer(
            String address, Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, address);
        all.put(ConsumerConfig.GROUP_ID_CONFIG, GROUP);
        all.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        all.put(ConsumerConfig.RETRY_BACKOFF_MS_CONFIG, RETRY_BACKOFF_MS);
        all.put(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, 50);
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
