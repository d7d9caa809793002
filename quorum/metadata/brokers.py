"""The life of a broker, as the controller sees it.

    (unknown) --register--> fenced --unfence--> active --fence--> fenced --unregister--> (unknown)
                              ^                   |
                              +--- controlled shutdown, once its leaders have moved

A registration is one process: it has an incarnation id of the broker's and gets an epoch of ours,
the offset of its record. A new process starts fenced, without leaderships and out of every ISR
(DESIGN.md, rule 14), and where it came back without its data out of the ELRs too (rule 8). It is
unfenced when its heartbeats show that it has read the metadata up to its registration and to all
that it lost by being fenced.
"""

from kafka_wire.error_codes import ErrorCode
from quorum.metadata.commands import (
    BrokerRegistered,
    BrokerUnregistered,
    Heartbeat,
    HeartbeatAnswer,
    Refused,
    RegisterBroker,
    UnregisterBroker,
)
from quorum.metadata.features import unsupported_feature
from quorum.metadata.fencing import (
    fence_records,
    removal_records,
    shutdown_records,
    unfence_records,
)
from quorum.metadata.heartbeats import Heartbeats
from quorum.metadata.image import MetadataImage
from quorum.metadata.partition_change import directory_of, in_batches
from quorum.metadata.records import (
    BrokerRegistrationChangeRecord,
    EndpointData,
    FeatureRange,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from quorum.metadata.result import Result, refuse
from quorum.metadata.settings import ControllerSettings
from quorum.metadata.topic_settings import flushes_before_acknowledging
from quorum.metadata.types import (
    ID_BYTES,
    NO_ID,
    UNASSIGNED_DIRECTORY,
    BrokerEpoch,
    BrokerId,
    MetadataOffset,
)

MAX_BROKER_ID = 2**31 - 1
MAX_LISTENERS = 32
MAX_DIRECTORIES = 256
MAX_TEXT = 256
"""Characters in a rack, a listener's name or a host."""


# --------------------------------------------------------------------------- registration


def register(
    image: MetadataImage,
    command: RegisterBroker,
    settings: ControllerSettings,
    heartbeats: Heartbeats,
    now_ms: int,
) -> Result:
    """Registers a process, once no other process of this id can be alive."""
    refused = _check(image, command, settings)
    if refused is not None:
        return Result(answer=refused)
    existing = image.brokers.get(command.broker_id)
    record = _registration(command)
    if existing is not None and _is_same_process(existing, record):
        return Result(answer=_registered(existing.epoch, settings))
    if existing is not None and heartbeats.has_session(existing, now_ms):
        return refuse(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"broker {command.broker_id} is registered by another process, whose session of "
            f"{settings.session_timeout_ms} ms is not over yet",
        )
    batches = in_batches([*_leaving_records(image, command, existing), record])
    # The registration is the last record: the epoch is the offset of the last batch.
    epoch = BrokerEpoch(image.offset + len(batches))
    return Result(answer=_registered(epoch, settings), batches=batches)


def _leaving_records(
    image: MetadataImage, command: RegisterBroker, existing: RegisterBrokerRecord | None
) -> list[Record]:
    """What the process before this one leaves: leaderships, ISRs and, without data, ELRs."""
    broker_id = command.broker_id
    records: list[Record] = []
    if existing is not None and not existing.fenced:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker_id, broker_epoch=existing.epoch, fenced=True
            )
        )
    keys = list(image.index.replicated_by(broker_id))
    lost = {
        partition.key
        for partition in image.partitions(keys)
        if _lost_data(image, partition, command, existing)
    }
    return records + removal_records(image, broker_id, keys, lost_data=lost)


def _lost_data(
    image: MetadataImage,
    partition: PartitionRecord,
    command: RegisterBroker,
    existing: RegisterBrokerRecord | None,
) -> bool:
    """Whether this replica may be without records that it once acknowledged."""
    stopped_cleanly = (
        existing is not None and command.previous_broker_epoch == existing.broker_epoch
    )
    if not stopped_cleanly and not flushes_before_acknowledging(image):
        return True
    directory = directory_of(partition, command.broker_id)
    if directory != UNASSIGNED_DIRECTORY:
        return directory not in command.directories
    # It was in one of the directories of the registration before; we do not know in which.
    return existing is None or not set(existing.directories) <= set(command.directories)


def _is_same_process(existing: RegisterBrokerRecord, record: RegisterBrokerRecord) -> bool:
    return (
        existing.incarnation_id == record.incarnation_id
        and existing.endpoints == record.endpoints
        and existing.directories == record.directories
        and existing.rack == record.rack
        and existing.features == record.features
    )


def _registration(command: RegisterBroker) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=command.broker_id,
        incarnation_id=command.incarnation_id,
        endpoints=tuple(
            EndpointData(endpoint.name, endpoint.host, endpoint.port, endpoint.security_protocol)
            for endpoint in command.endpoints
        ),
        directories=tuple(sorted(command.directories)),
        rack=command.rack,
        features=tuple(
            FeatureRange(feature.name, feature.min_level, feature.max_level)
            for feature in sorted(command.features, key=lambda feature: feature.name)
        ),
    )


def _registered(epoch: BrokerEpoch, settings: ControllerSettings) -> BrokerRegistered:
    return BrokerRegistered(broker_epoch=epoch, session_timeout_ms=settings.session_timeout_ms)


def _check(
    image: MetadataImage, command: RegisterBroker, settings: ControllerSettings
) -> Refused | None:
    if command.cluster_id != settings.cluster_id:
        return Refused(
            code=ErrorCode.INCONSISTENT_CLUSTER_ID,
            message=f"this is cluster {settings.cluster_id}, not {command.cluster_id}",
        )
    wrong = _malformed(command)
    if wrong is not None:
        return Refused(code=ErrorCode.INVALID_REGISTRATION, message=wrong)
    missing = unsupported_feature(image, command.features)
    if missing is not None:
        return Refused(code=ErrorCode.UNSUPPORTED_VERSION, message=missing)
    return None


def _malformed(command: RegisterBroker) -> str | None:
    directories = command.directories
    names = [endpoint.name for endpoint in command.endpoints]
    texts = [*names, *(endpoint.host for endpoint in command.endpoints), command.rack or "-"]
    checks = (
        (0 <= command.broker_id <= MAX_BROKER_ID, f"{command.broker_id} is no broker id"),
        (_is_id(command.incarnation_id), "the incarnation id must be 16 bytes, not all zero"),
        (1 <= len(names) <= MAX_LISTENERS, f"a broker has 1 to {MAX_LISTENERS} listeners"),
        (len(set(names)) == len(names), "two listeners have the same name"),
        (all(0 < e.port < 65536 for e in command.endpoints), "a port is between 1 and 65535"),
        (all(0 < len(text) <= MAX_TEXT for text in texts), "a name is empty or too long"),
        (1 <= len(directories) <= MAX_DIRECTORIES, "a broker has at least one data directory"),
        (len(set(directories)) == len(directories), "two directories have the same id"),
        (all(map(_is_id, directories)), "a directory id must be 16 bytes, not all zero"),
        (
            all(0 <= f.min_level <= f.max_level for f in command.features),
            "a feature's levels are not a range",
        ),
    )
    return next((message for holds, message in checks if not holds), None)


def _is_id(value: bytes) -> bool:
    return len(value) == ID_BYTES and value != NO_ID


# ------------------------------------------------------------------------------ heartbeats


def heartbeat(image: MetadataImage, command: Heartbeat, settings: ControllerSettings) -> Result:
    """Answers a heartbeat; it may unfence the broker, fence it, or bring its shutdown on."""
    broker = checked_broker(image, command.broker_id, command.broker_epoch)
    if isinstance(broker, Refused):
        return Result(answer=broker)
    if command.metadata_offset < 0:
        return refuse(ErrorCode.INVALID_REQUEST, "a metadata offset cannot be negative")
    if command.metadata_offset > image.offset:
        # Only committed metadata is ever given out, so somebody else has committed more.
        return refuse(ErrorCode.NOT_CONTROLLER, "the broker has read more than this controller")
    if command.want_shut_down:
        return _shut_down(image, command, broker, settings)
    if broker.fenced:
        return _fenced(image, command, broker, settings)
    if command.want_fence:
        return _result(
            image, command, settings, fence_records(image, broker.broker_id), fenced=True
        )
    return _result(image, command, settings, [], fenced=False)


def _fenced(
    image: MetadataImage,
    command: Heartbeat,
    broker: RegisterBrokerRecord,
    settings: ControllerSettings,
) -> Result:
    if command.want_fence or not may_be_unfenced(image, broker, command.metadata_offset):
        return _result(image, command, settings, [], fenced=True)
    return _result(image, command, settings, unfence_records(image, broker), fenced=False)


def may_be_unfenced(
    image: MetadataImage, broker: RegisterBrokerRecord, metadata_offset: MetadataOffset
) -> bool:
    """Whether the broker knows of its registration and of everything that it does not lead any
    more (DESIGN.md, rule 14)."""
    return (
        not broker.in_controlled_shutdown
        and metadata_offset >= broker.epoch
        and _knows_its_fencing(broker, metadata_offset)
        and not image.index.is_involved(broker.broker_id)
    )


def _knows_its_fencing(broker: RegisterBrokerRecord, metadata_offset: MetadataOffset) -> bool:
    return broker.fencing_offset is None or metadata_offset >= broker.fencing_offset


def _shut_down(
    image: MetadataImage,
    command: Heartbeat,
    broker: RegisterBrokerRecord,
    settings: ControllerSettings,
) -> Result:
    if broker.fenced:
        return _result(image, command, settings, [], fenced=True, should_shut_down=True)
    moves = shutdown_records(image, broker.broker_id)
    if moves or not _knows_its_fencing(broker, command.metadata_offset):
        return _result(image, command, settings, moves, fenced=False)
    records = fence_records(image, broker.broker_id)
    return _result(image, command, settings, records, fenced=True, should_shut_down=True)


def _result(
    image: MetadataImage,
    command: Heartbeat,
    settings: ControllerSettings,
    records: list[Record],
    *,
    fenced: bool,
    should_shut_down: bool = False,
) -> Result:
    answer = HeartbeatAnswer(
        is_caught_up=command.metadata_offset >= command.broker_epoch,
        is_fenced=fenced,
        should_shut_down=should_shut_down,
        session_timeout_ms=settings.session_timeout_ms,
    )
    return Result(answer=answer, batches=in_batches(records))


# ------------------------------------------------------------------------------- departure


def unregister(image: MetadataImage, command: UnregisterBroker) -> Result:
    """Forgets a broker. The partitions that it replicates still name it until they are
    reassigned, as in Kafka."""
    broker = image.brokers.get(command.broker_id)
    if broker is None:
        return Result(answer=_not_registered(command.broker_id))
    if not broker.fenced:
        return refuse(
            ErrorCode.INVALID_REQUEST,
            f"broker {command.broker_id} is alive and may hold leases: shut it down first",
        )
    leaving = fence_records(image, command.broker_id)
    record = UnregisterBrokerRecord(broker_id=command.broker_id, broker_epoch=broker.epoch)
    return Result(
        answer=BrokerUnregistered(broker_id=command.broker_id),
        batches=in_batches([*leaving, record]),
    )


def checked_broker(
    image: MetadataImage, broker_id: BrokerId, broker_epoch: BrokerEpoch
) -> RegisterBrokerRecord | Refused:
    """The registration that a broker speaks for, if it is the current one."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return _not_registered(broker_id)
    if broker.broker_epoch != broker_epoch:
        return Refused(
            code=ErrorCode.STALE_BROKER_EPOCH,
            message=f"broker {broker_id} is registered with epoch {broker.broker_epoch}, "
            f"not {broker_epoch}",
        )
    return broker


def _not_registered(broker_id: BrokerId) -> Refused:
    return Refused(
        code=ErrorCode.BROKER_ID_NOT_REGISTERED, message=f"broker {broker_id} is not registered"
    )
