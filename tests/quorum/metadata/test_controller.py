"""Speculation, request ids, producer ids, features: what the controller as a whole promises."""

import dataclasses

import pytest

from kafka_wire.error_codes import ErrorCode
from quorum.metadata import features, request_log
from quorum.metadata.commands import (
    AllocateProducerIds,
    CreateTopics,
    DeleteTopics,
    FeaturesUpdated,
    FeatureUpdate,
    NewTopic,
    ProducerIdsAllocated,
    Refused,
    SupportedFeature,
    TopicReference,
    TopicsCreated,
    UpdateFeatures,
)
from quorum.metadata.image import apply_batch
from quorum.metadata.records import LEVEL_OF_VERSION, FeatureLevelRecord, TopicRecord
from quorum.metadata.result import Result
from quorum.metadata.types import BrokerEpoch, MetadataOffset, TopicId, UpgradeType
from tests.quorum.metadata.cluster import Cluster, code_of, identity, registration


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.start(1, 2, 3)
    return cluster


def creation(name: str, number: int, request_id: str | None = None) -> CreateTopics:
    topic = NewTopic(name=name, topic_id=TopicId(identity(5, number)))
    return CreateTopics(topics=(topic,), seed=1, request_id=request_id)


# ------------------------------------------------------------------------------ speculation


def test_decisions_build_on_what_is_proposed_and_not_committed(cluster: Cluster) -> None:
    controller = cluster.controller
    first = controller.submit(creation("t", 1), cluster.now_ms)
    second = controller.submit(creation("t", 2), cluster.now_ms)
    assert isinstance(second.answer, TopicsCreated)
    assert code_of(second.answer.topics[0].error) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert second.release_offset == first.proposals[0].offset, "it waits for what it speaks of"
    assert controller.image.topic("t") is None


def test_losing_leadership_drops_what_is_not_committed(cluster: Cluster) -> None:
    cluster.controller.submit(creation("t", 1), cluster.now_ms)
    cluster.fail_over()
    assert cluster.controller.speculative_image.topic("t") is None


def test_batch_after_a_failed_one_counts_nowhere(cluster: Cluster) -> None:
    """The first proposal is refused by raft, the second takes its place in the log."""
    controller = cluster.controller
    before = cluster.image
    controller.submit(creation("t", 1), cluster.now_ms)
    second = controller.submit(creation("u", 2), cluster.now_ms).proposals[0]
    offset = MetadataOffset(before.offset + 1)
    entry = controller.apply(second.data, offset=offset, epoch=cluster.term)
    assert not entry.accepted
    assert not entry.speculation_kept
    assert controller.image.topics == before.topics
    assert controller.speculative_image is controller.image
    assert not apply_batch(before, second.data, offset=offset, epoch=cluster.term).accepted


def test_batch_decided_on_other_content_counts_nowhere_even_at_its_offset(
    cluster: Cluster,
) -> None:
    controller = cluster.controller
    before = cluster.image
    first = controller.submit(creation("t", 1), cluster.now_ms).proposals[0]
    second = controller.submit(creation("u", 2), cluster.now_ms).proposals[0]
    controller.reset_speculation()
    other = controller.submit(creation("v", 3), cluster.now_ms).proposals[0]
    assert other.offset == first.offset
    image = apply_batch(before, other.data, offset=other.offset, epoch=cluster.term).image
    applied = apply_batch(image, second.data, offset=second.offset, epoch=cluster.term)
    assert not applied.accepted
    assert applied.image.topics == image.topics


def test_entry_of_another_leader_drops_the_speculation(cluster: Cluster) -> None:
    controller = cluster.controller
    controller.submit(creation("t", 1), cluster.now_ms)
    offset = MetadataOffset(cluster.image.offset + 1)
    entry = controller.apply(b"", offset=offset, epoch=cluster.term + 1)
    assert entry.accepted
    assert not entry.speculation_kept
    assert controller.speculative_image.topic("t") is None


def test_inactive_controller_decides_nothing(cluster: Cluster) -> None:
    cluster.controller.deactivate()
    assert cluster.refused(creation("t", 1)) is ErrorCode.NOT_CONTROLLER
    assert cluster.controller.periodic(cluster.now_ms + 10**6) == ()


def test_restored_controller_holds_the_image_of_the_snapshot(cluster: Cluster) -> None:
    cluster.create("t", (1, 2))
    other = Cluster()
    other.controller.restore(b"".join(cluster.controller.capture()()))
    assert other.image == cluster.image


def test_known_records_are_replayed_without_their_batch(cluster: Cluster) -> None:
    offset = MetadataOffset(cluster.image.offset + 1)
    record = TopicRecord(topic_id=TopicId(identity(5)), name="t")
    cluster.controller.replay((record,), offset=offset, epoch=cluster.term)
    assert cluster.image.topic("t") is not None
    assert cluster.image.offset == offset


def test_record_version_above_the_finalized_level_is_never_written(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LEVEL_OF_VERSION, TopicRecord, (2,))
    assert cluster.refused(creation("t", 1)) is ErrorCode.UNSUPPORTED_VERSION


# ------------------------------------------------------------------------------ request ids


def test_retry_is_answered_by_every_later_controller(cluster: Cluster) -> None:
    answer = cluster.submit(creation("t", 1, "request"))
    cluster.fail_over()
    image = cluster.image
    assert cluster.submit(creation("t", 2, "request")) == answer
    assert cluster.image is image
    other = Cluster()
    other.controller.restore(b"".join(cluster.controller.capture()()))
    assert other.image.requests == image.requests


def test_retry_does_not_undo_what_came_in_between(cluster: Cluster) -> None:
    cluster.submit(creation("t", 1))
    deletion = DeleteTopics(topics=(TopicReference(name="t"),), request_id="delete")
    answer = cluster.submit(deletion)
    cluster.submit(creation("t", 2))
    assert cluster.submit(deletion) == answer
    assert cluster.image.topic("t") is not None


def test_refusal_is_not_remembered_and_is_decided_anew(cluster: Cluster) -> None:
    cluster.submit(creation("t", 1))
    again = creation("t", 2, "request")
    refused = cluster.submit(again)
    assert isinstance(refused, TopicsCreated)
    assert code_of(refused.topics[0].error) is ErrorCode.TOPIC_ALREADY_EXISTS
    cluster.submit(DeleteTopics(topics=(TopicReference(name="t"),)))
    created = cluster.submit(again)
    assert isinstance(created, TopicsCreated)
    assert created.topics[0].error is None


def test_request_id_of_another_kind_of_request_is_refused(cluster: Cluster) -> None:
    cluster.submit(creation("t", 1, "request"))
    deletion = DeleteTopics(topics=(TopicReference(name="t"),), request_id="request")
    assert cluster.refused(deletion) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("request_id", ["", "x" * 101])
def test_malformed_request_id_is_refused(cluster: Cluster, request_id: str) -> None:
    assert cluster.refused(creation("t", 1, request_id)) is ErrorCode.INVALID_REQUEST


def test_oldest_requests_are_forgotten_beyond_the_limits(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "MAX_REQUESTS", 3)
    for number in range(5):
        cluster.submit(creation(f"t{number}", number, f"request-{number}"))
    remembered = [record.request_id for record in cluster.image.requests.in_order()]
    assert remembered == ["request-2", "request-3", "request-4"]
    monkeypatch.setattr(request_log, "MAX_REQUEST_BYTES", 1)
    cluster.submit(creation("last", 9, "last"))
    assert [record.request_id for record in cluster.image.requests.in_order()] == ["last"]
    assert set(cluster.image.requests.answers) == {"last"}


# ----------------------------------------------------------------- producer ids and features


def test_no_producer_id_is_given_out_twice(cluster: Cluster) -> None:
    given: set[int] = set()
    for broker_id in (1, 2, 1, 3):
        answer = cluster.submit(
            AllocateProducerIds(broker_id=broker_id, broker_epoch=cluster.epochs[broker_id])
        )
        assert isinstance(answer, ProducerIdsAllocated)
        block = set(range(answer.first_producer_id, answer.first_producer_id + answer.count))
        assert len(block) == 1000
        assert not block & given
        given |= block
        cluster.fail_over()


def test_producer_ids_need_the_current_registration(cluster: Cluster) -> None:
    command = AllocateProducerIds(broker_id=1, broker_epoch=BrokerEpoch(cluster.epochs[1] + 1))
    assert cluster.refused(command) is ErrorCode.STALE_BROKER_EPOCH
    unknown = dataclasses.replace(command, broker_id=99)
    assert cluster.refused(unknown) is ErrorCode.BROKER_ID_NOT_REGISTERED


SUPPORTED = {"metadata.version": (1, 3), "other.version": (0, 2)}


def update(cluster: Cluster, name: str, level: int, upgrade_type: UpgradeType) -> Result:
    change = FeatureUpdate(name=name, level=level, upgrade_type=upgrade_type)
    return features.update(cluster.image, UpdateFeatures(updates=(change,)), SUPPORTED)


def featured_cluster() -> Cluster:
    cluster = Cluster()
    for broker_id, most in ((1, 3), (2, 2)):
        ranges = (
            SupportedFeature(name="metadata.version", min_level=1, max_level=most),
            SupportedFeature(name="other.version", min_level=0, max_level=2),
        )
        cluster.register(dataclasses.replace(registration(broker_id), features=ranges))
    records = (
        FeatureLevelRecord(name="metadata.version", level=1),
        FeatureLevelRecord(name="other.version", level=1),
    )
    offset = MetadataOffset(cluster.image.offset + 1)
    cluster.controller.replay(records, offset=offset, epoch=cluster.term)
    return cluster


@pytest.mark.parametrize(
    ("name", "level", "upgrade_type", "allowed"),
    [
        ("metadata.version", 2, UpgradeType.UPGRADE, True),
        ("metadata.version", 3, UpgradeType.UPGRADE, False),
        ("metadata.version", 4, UpgradeType.UPGRADE, False),
        ("metadata.version", 0, UpgradeType.UNSAFE_DOWNGRADE, False),
        ("metadata.version", 2, UpgradeType.SAFE_DOWNGRADE, False),
        ("metadata.version", -1, UpgradeType.UPGRADE, False),
        ("other.version", 2, UpgradeType.UPGRADE, True),
        ("other.version", 0, UpgradeType.UPGRADE, False),
        ("other.version", 0, UpgradeType.SAFE_DOWNGRADE, True),
        ("unknown.version", 1, UpgradeType.UPGRADE, False),
    ],
)
def test_level_is_finalized_only_if_everybody_has_it(
    name: str, level: int, upgrade_type: UpgradeType, allowed: bool
) -> None:
    result = update(featured_cluster(), name, level, upgrade_type)
    if allowed:
        assert result.records == (FeatureLevelRecord(name=name, level=level),)
        assert isinstance(result.answer, FeaturesUpdated)
    else:
        assert isinstance(result.answer, Refused)
        assert not result.batches


def test_features_are_updated_all_or_none() -> None:
    cluster = featured_cluster()
    updates = (
        FeatureUpdate(name="other.version", level=2),
        FeatureUpdate(name="metadata.version", level=9),
    )
    result = features.update(cluster.image, UpdateFeatures(updates=updates), SUPPORTED)
    assert isinstance(result.answer, Refused)
    twice = UpdateFeatures(updates=updates[:1] * 2)
    assert isinstance(features.update(cluster.image, twice, SUPPORTED).answer, Refused)
