"""The skips that `REQUIRE_ALL=1` allows, each with its reason.

The key is a node id, or the beginning of one up to a `/`, `::` or `[`.
"""

from collections.abc import Mapping

ALLOWED_SKIPS: Mapping[str, str] = {
    "tests/jepsen_style/test_public_histories.py": (
        "needs public histories in TEST_HISTORIES_DIR, which are no part of the repository;"
        " the comparison with brute force runs everywhere"
    ),
    "tests/wire/test_kafka_schemas.py": (
        "needs Kafka's schema files in TEST_SCHEMAS_DIR, which are no part of the repository;"
        " the comparison with kio, which is generated from them, runs everywhere"
    ),
}
