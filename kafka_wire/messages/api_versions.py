"""ApiVersions (key 18): which requests and versions a broker understands.

3 sends the client's software and returns features (KIP-511, KIP-584); 4 allows a minimum of 0
in a feature (KIP-1022). A broker answers a version that it does not know with a version 0 body
and UNSUPPORTED_VERSION, and its response header is always version 0, so that any client can
read it.
"""

from typing import Annotated

from kafka_wire.schema import (
    Bool,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    String,
    Struct,
    ignorable,
    message,
    since,
    tag,
)


@message(api_key=18, versions=(0, 4), flexible_since=3)
class ApiVersionsRequest(Request, kw_only=True):
    client_software_name: Annotated[String, since(3), ignorable] = ""
    client_software_version: Annotated[String, since(3), ignorable] = ""


class ApiVersion(Struct, kw_only=True):
    api_key: Int16
    min_version: Int16
    max_version: Int16


class SupportedFeatureKey(Struct, kw_only=True):
    name: String
    min_version: Int16
    max_version: Int16


class FinalizedFeatureKey(Struct, kw_only=True):
    name: String
    max_version_level: Int16
    min_version_level: Int16


@message(api_key=18, versions=(0, 4), flexible_since=3)
class ApiVersionsResponse(Response, kw_only=True):
    error_code: Int16 = 0
    api_keys: list[ApiVersion]
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    supported_features: Annotated[list[SupportedFeatureKey], since(3), tag(0), ignorable] = []
    finalized_features_epoch: Annotated[Int64, since(3), tag(1), ignorable] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], since(3), tag(2), ignorable] = []
    zk_migration_ready: Annotated[Bool, since(3), tag(3), ignorable] = False
