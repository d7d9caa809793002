"""UpdateFeatures (key 57): finalizes feature levels (KIP-584).

1 adds downgrades and a dry run (KIP-778), 2 answers all features with one error (KIP-1022).
"""

from typing import Annotated

from kafka_wire.schema import (
    Bool,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Struct,
    ignorable,
    message,
    since,
    until,
)


class FeatureUpdateKey(Struct, kw_only=True):
    feature: String
    max_version_level: Int16
    allow_downgrade: Annotated[Bool, until(0)] = False
    upgrade_type: Annotated[Int8, since(1)] = 1


@message(api_key=57, versions=(0, 2), flexible_since=0)
class UpdateFeaturesRequest(Request, kw_only=True):
    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey]
    validate_only: Annotated[Bool, since(1)] = False


class UpdatableFeatureResult(Struct, kw_only=True):
    feature: String
    error_code: Int16 = 0
    error_message: String | None = None


@message(api_key=57, versions=(0, 2), flexible_since=0)
class UpdateFeaturesResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    results: Annotated[list[UpdatableFeatureResult], until(1), ignorable] = []
