"""AlterUserScramCredentials (key 51): sets and removes SCRAM credentials (KIP-554)."""

from kafka_wire.schema import Bytes, Int8, Int16, Int32, Request, Response, String, Struct, message


class ScramCredentialDeletion(Struct, kw_only=True):
    name: String
    mechanism: Int8


class ScramCredentialUpsertion(Struct, kw_only=True):
    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


@message(api_key=51, versions=(0, 0), flexible_since=0)
class AlterUserScramCredentialsRequest(Request, kw_only=True):
    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


class AlterUserScramCredentialsResult(Struct, kw_only=True):
    user: String
    error_code: Int16 = 0
    error_message: String | None = None


@message(api_key=51, versions=(0, 0), flexible_since=0)
class AlterUserScramCredentialsResponse(Response, kw_only=True):
    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult]
