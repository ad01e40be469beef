"""What the metadata and the node's properties say together: an unfinished migration, and topics with a tier.

Before 4.0 a leader whose metadata is still before the migration from ZooKeeper refuses to write
(`QuorumController.ControllerWriteEvent`); since 4.0 the state of a migration is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.cluster.kraft.metadata_image import MetadataImage
from kafkalog.recovery.broker.node.answer import REFUSED_SETTING, ConsequenceKind, Fault, Part, StartConsequence
from kafkalog.recovery.broker.node.ending import ends
from kafkalog.recovery.broker.node.metadata_log import LoadedMetadata
from kafkalog.recovery.broker.node.node_files import NodeFiles
from kafkalog.recovery.broker.node.releases import Release

__all__ = ["consequences_of_migration", "consequences_without_tier", "refuse_small_segments"]

_MIGRATION, _PRE_MIGRATION = 1, 2
_SYSTEM, _TOPIC = "remote.log.storage.system.enable", "remote.storage.enable"
_NAMED = 3
_SEGMENT_BYTES = "segment.bytes"
_LEAST_SEGMENT_BYTES = 1 << 20


def refuse_small_segments(files: NodeFiles, image: MetadataImage, release: Release) -> None:
    """Raise `StartEndsError` if a topic or the broker has segments below 1 MiB, which 4.0 and later refuse (KIP-1030).

    A broker reads the settings of all topics before it loads a log (`LogManager.fetchTopicConfigOverrides`,
    `LogConfig.validate`).
    """
    if not release.at_least("4.0"):
        return
    settings = [(f"log.{_SEGMENT_BYTES}", files.properties.get(f"log.{_SEGMENT_BYTES}", ""), "the properties")]
    settings += [
        (_SEGMENT_BYTES, image.configs.get(f"topic:{name}", {}).get(_SEGMENT_BYTES, ""), f"topic {name}")
        for name in sorted(image.topics)
    ]
    for name, value, owner in settings:
        if value.strip().isdigit() and int(value) < _LEAST_SEGMENT_BYTES:
            message = (
                f"Invalid value {value.strip()} for configuration {name}: Value must be at least {_LEAST_SEGMENT_BYTES}"
            )
            raise ends(
                Part.METADATA_REPLAY, REFUSED_SETTING, files.metadata_root or min(files.roots),
                "org.apache.kafka.common.config.ConfigException", message, detail=f"{owner} has {name}={value}",
            )  # fmt: skip


def consequences_of_migration(
    image: MetadataImage, loaded: LoadedMetadata, release: Release
) -> tuple[Sequence[StartConsequence], Sequence[Fault]]:
    """What follows for a leader from the state of a migration from ZooKeeper; nothing if there was none."""
    state = image.zk_migration_state
    if release.at_least("4.0") or state not in (_MIGRATION, _PRE_MIGRATION):
        return (), ()
    if state == _MIGRATION:
        detail = "the migration from ZooKeeper is ended, unless the properties go on with it"
        return (StartConsequence(ConsequenceKind.MIGRATION_ENDED, detail, loaded.directory),), ()
    detail = (
        "the metadata says that the migration from ZooKeeper has not begun: until it has, the controller registers no "
        "broker and changes nothing else"
    )
    return (
        (StartConsequence(ConsequenceKind.NOT_SERVING, detail, loaded.directory),),
        (Fault(Part.METADATA_REPLAY, "migration", loaded.directory, detail),),
    )


def consequences_without_tier(files: NodeFiles, image: MetadataImage) -> Sequence[StartConsequence]:
    """Topics with a remote tier on a broker whose properties do not turn tiers on; nothing without properties."""
    if not files.properties or files.properties.get(_SYSTEM, "").strip().lower() == "true":
        return ()
    names = sorted(
        resource.partition(":")[2] or resource
        for resource, values in image.configs.items()
        if values.get(_TOPIC, "").lower() == "true"
    )
    if not names:
        return ()
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    detail = f"the broker has no remote tier ({_SYSTEM} is not true): of {shown} only what is local is served"
    return (StartConsequence(ConsequenceKind.OTHER, detail),)
