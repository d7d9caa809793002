"""Feature levels that the cluster has agreed on (KIP-584), `metadata.version` first of all.

A level is finalized only if every registered broker and this controller understand it, and a
broker that does not understand what is finalized cannot register. `metadata.version` gates the
versions of records, so lowering it is refused: records of the higher level may be in the log.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kafka_wire.error_codes import ErrorCode
from quorum.metadata.commands import (
    FeaturesUpdated,
    FeatureUpdate,
    Refused,
    SupportedFeature,
    UpdateFeatures,
)
from quorum.metadata.image import METADATA_VERSION, MetadataImage
from quorum.metadata.records import FeatureLevelRecord, Record
from quorum.metadata.result import Result, refuse
from quorum.metadata.types import UpgradeType

SUPPORTED: Final[Mapping[str, tuple[int, int]]] = {METADATA_VERSION: (1, 1)}
"""What this program understands, by name: the lowest and the highest level."""


def update(
    image: MetadataImage,
    command: UpdateFeatures,
    supported: Mapping[str, tuple[int, int]] = SUPPORTED,
) -> Result:
    """Finalizes levels: all of them, or none."""
    names = [feature.name for feature in command.updates]
    if len(set(names)) != len(names):
        return refuse(ErrorCode.INVALID_REQUEST, "a feature is named twice")
    records: list[Record] = []
    levels = dict(image.features)
    for feature in command.updates:
        refused = _check(image, feature, supported)
        if refused is not None:
            return Result(answer=refused)
        if levels.get(feature.name, 0) != feature.level:
            records.append(FeatureLevelRecord(name=feature.name, level=feature.level))
        levels[feature.name] = feature.level
    finalized = tuple(sorted((name, level) for name, level in levels.items() if level))
    return Result(
        answer=FeaturesUpdated(features=finalized),
        batches=(tuple(records),) if records and not command.validate_only else (),
    )


def _check(
    image: MetadataImage, feature: FeatureUpdate, supported: Mapping[str, tuple[int, int]]
) -> Refused | None:
    current = _current(image, feature.name)
    if feature.level < 0:
        return _failed(ErrorCode.INVALID_REQUEST, feature, "a level cannot be negative")
    if feature.level < current:
        if feature.upgrade_type is UpgradeType.UPGRADE:
            return _failed(
                ErrorCode.INVALID_UPDATE_VERSION,
                feature,
                f"it is at {current}, and going down has to be asked for",
            )
        if feature.name == METADATA_VERSION:
            return _failed(
                ErrorCode.INVALID_UPDATE_VERSION,
                feature,
                f"records of level {current} may have been written",
            )
    if feature.level > current and feature.upgrade_type is not UpgradeType.UPGRADE:
        return _failed(
            ErrorCode.INVALID_UPDATE_VERSION, feature, f"it is at {current}: that is an upgrade"
        )
    if feature.level == 0:
        return None
    return _check_support(image, feature, supported)


def _check_support(
    image: MetadataImage, feature: FeatureUpdate, supported: Mapping[str, tuple[int, int]]
) -> Refused | None:
    least, most = supported.get(feature.name, (0, -1))
    if not least <= feature.level <= most:
        known = f"it knows {least} to {most}" if most >= least else "it does not know the feature"
        return _failed(
            ErrorCode.INVALID_UPDATE_VERSION, feature, f"the controller cannot have it: {known}"
        )
    for broker_id in sorted(image.brokers):
        ranges = {f.name: (f.min_level, f.max_level) for f in image.brokers[broker_id].features}
        least, most = ranges.get(feature.name, _IMPLIED.get(feature.name, (0, -1)))
        if not least <= feature.level <= most:
            return _failed(
                ErrorCode.INVALID_UPDATE_VERSION, feature, f"broker {broker_id} cannot have it"
            )
    return None


def unsupported_feature(image: MetadataImage, features: Iterable[SupportedFeature]) -> str | None:
    """What a broker would have to know in order to join; None if it knows enough."""
    ranges = {feature.name: (feature.min_level, feature.max_level) for feature in features}
    finalized = {METADATA_VERSION: image.metadata_version, **image.features}
    for name in sorted(finalized):
        least, most = ranges.get(name, _IMPLIED.get(name, (0, -1)))
        if not least <= finalized[name] <= most:
            return f"the cluster has {name} at {finalized[name]}, which the broker does not support"
    return None


_IMPLIED: Final[Mapping[str, tuple[int, int]]] = {METADATA_VERSION: (1, 1)}
"""What a broker supports that does not say so."""


def _current(image: MetadataImage, name: str) -> int:
    if name == METADATA_VERSION:
        return image.metadata_version
    return image.features.get(name, 0)


def _failed(code: ErrorCode, feature: FeatureUpdate, why: str) -> Refused:
    return Refused(code=code, message=f"{feature.name} cannot be set to {feature.level}: {why}")
