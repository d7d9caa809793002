"""What the first active controller of a new cluster writes before anything else.

The finalized `metadata.version`, and the cluster's default configs as far as the voter's file gives
them. They are commands like all others; their request ids are fixed, so that a second controller
that takes over half-way repeats nothing. Once `metadata.version` is finalized the cluster is not
new any more, and what a file says of the cluster's configs changes nothing.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from quorum.active_controller import ActiveController
from quorum.errors import OutcomeUnknownError, QuorumError
from quorum.metadata.commands import (
    Command,
    ConfigChange,
    ConfigsAltered,
    FeatureUpdate,
    IncrementalAlterConfigs,
    ResourceChange,
    UpdateFeatures,
)
from quorum.metadata.features import SUPPORTED
from quorum.metadata.image import METADATA_VERSION, MetadataImage
from quorum.metadata.types import CLUSTER_DEFAULT, ConfigOperation

TIMEOUT_S: Final = 10.0

logger = logging.getLogger(__name__)


def is_new_cluster(image: MetadataImage) -> bool:
    return METADATA_VERSION not in image.features


def first_commands(configs: Mapping[str, str]) -> Iterator[Command]:
    """The configs come first: `metadata.version` says that everything is done."""
    if configs:
        changes = tuple(
            ConfigChange(key=key, operation=ConfigOperation.SET, value=configs[key])
            for key in sorted(configs)
        )
        yield IncrementalAlterConfigs(
            resources=(ResourceChange(resource=CLUSTER_DEFAULT, changes=changes),),
            request_id="bootstrap-configs",
        )
    yield UpdateFeatures(
        updates=(FeatureUpdate(name=METADATA_VERSION, level=SUPPORTED[METADATA_VERSION][1]),),
        request_id="bootstrap-features",
    )


async def bootstrap(controller: ActiveController, configs: Mapping[str, str]) -> None:
    """Whoever is the active controller when it fails, or after, begins again."""
    try:
        for command in first_commands(configs):
            answer = await controller.submit(command, timeout_s=TIMEOUT_S)
            if isinstance(answer, ConfigsAltered):
                _log_refused(answer)
    except (QuorumError, OutcomeUnknownError) as error:
        logger.info("the cluster's first records are not written yet: %s", error)
        return
    logger.info("the cluster is new: its first records are written")


def _log_refused(answer: ConfigsAltered) -> None:
    for result in answer.resources:
        if result.error is not None:
            logger.error("the configured defaults are not taken: %s", result.error.message)
