"""DescribeUserScramCredentials (key 50): which users have SCRAM credentials (KIP-554)."""

from kafka_wire.schema import Int8, Int16, Int32, Request, Response, String, Struct, message


class UserName(Struct, kw_only=True):
    name: String


@message(api_key=50, versions=(0, 0), flexible_since=0)
class DescribeUserScramCredentialsRequest(Request, kw_only=True):
    users: list[UserName] | None


class CredentialInfo(Struct, kw_only=True):
    mechanism: Int8
    iterations: Int32


class DescribeUserScramCredentialsResult(Struct, kw_only=True):
    user: String
    error_code: Int16 = 0
    error_message: String | None = None
    credential_infos: list[CredentialInfo]


@message(api_key=50, versions=(0, 0), flexible_since=0)
class DescribeUserScramCredentialsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    results: list[DescribeUserScramCredentialsResult]
