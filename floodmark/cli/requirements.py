"""What the installed floodmark distribution requires, and what of it is installed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata

_DISTRIBUTION = "floodmark"
_REQUIREMENT = re.compile(r"\s*(?P<name>[A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*(?P<versions>[^;]*)")
_EXTRA = re.compile(r"""extra\s*==\s*["'](?P<extra>[^"']+)["']""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    name: str
    versions: str
    extra: str | None

    def installed_version(self) -> str | None:
        try:
            return metadata.version(self.name)
        except metadata.PackageNotFoundError:
            return None


def requirements() -> Sequence[Requirement]:
    """Every direct requirement, of the base first and then of each extra."""
    try:
        lines = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        lines = []
    parsed = [_parse(line) for line in lines]
    return sorted(parsed, key=lambda found: (found.extra or "", found.name))


def _parse(line: str) -> Requirement:
    head = _REQUIREMENT.match(line)
    if head is None:
        raise ValueError(f"not a requirement: {line!r}")
    extra = _EXTRA.search(line)
    return Requirement(
        name=head["name"],
        versions=head["versions"].strip(),
        extra=extra["extra"] if extra else None,
    )
