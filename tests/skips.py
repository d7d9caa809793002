"""The skips that `REQUIRE_ALL=1` allows, each with its reason.

The key is a node id, or the beginning of one up to a `/`, `::` or `[`.
"""

from collections.abc import Mapping

ALLOWED_SKIPS: Mapping[str, str] = {}
