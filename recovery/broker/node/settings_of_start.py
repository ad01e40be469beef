"""Check whether metadata and the node's properties fit together: unfinished migrations from ZooKeeper, tiered topics,
and settings that a release refuses.

Before 4.0 a leader whose metadata is still before the migration from ZooKeeper refuses to write
(`QuorumController.ControllerWriteEvent`); since 4.0 the state of a migration is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkalog.cluster.kraft.metadata_image import MetadataImage
from kafkalog.codec.common.wording import first_of
from kafkalog.recovery.broker.node.answer import REFUSED_SETTING, ConsequenceKind, Fault, Part, Role, StartConsequence
from kafkalog.recovery.broker.node.ending import RUNTIME, ends
from kafkalog.recovery.broker.node.metadata_log import LoadedMetadata
from kafkalog.recovery.broker.node.node_files import NodeFiles
from kafkalog.recovery.broker.node.releases import Release

__all__ = [
    "accepts_unreleased", "condition_of_classes", "condition_of_migration", "consequences_of_migration",
    "consequences_without_tier", "goes_on_migrating", "refuse_migration_without_zookeeper", "refuse_small_segments",
]  # fmt: skip

_MIGRATION, _PRE_MIGRATION = 1, 2
_SYSTEM, _TOPIC = "remote.log.storage.system.enable", "remote.storage.enable"
_UNRELEASED = ("unstable.feature.versions.enable", "unstable.metadata.versions.enable")
"""the second is an older name, which 3.9.1 no longer has"""
_NAMED = 3
_ROLES, _NODE, _LISTENERS = "process.roles", "node.id", "controller.listener.names"
_QUORUM = ("controller.quorum.bootstrap.servers", "controller.quorum.voters")
_CONFIG = "org.apache.kafka.common.config.ConfigException"
_NO_NODE = (
    "Missing configuration `node.id` which is required when `process.roles` is defined (i.e. when running in KRaft "
    "mode)."
)
_NO_QUORUM = (
    "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap controllers "
    "or controller.quorum.voters must contain a parseable set of controllers."
)
_NO_LISTENER = (
    "requirement failed: controller.listener.names must contain at least one value appearing in the 'listeners' "
    "configuration when running the KRaft controller role"
)
_SEGMENT_BYTES = "segment.bytes"
_LEAST_SEGMENT_BYTES = 1 << 20
_MIGRATE, _ZOOKEEPER = "zookeeper.metadata.migration.enable", "zookeeper.connect"
_REMOVE_IT = f"remove the line {_MIGRATE} from server.properties"
_FIRST_MIGRATING_LEVEL = 8
"""3.4-IV0"""
_OF_TIER = ("remote.log.storage.manager.class.name", "remote.log.metadata.manager.class.name")
_OF_CLASSES = (
    *_OF_TIER, "authorizer.class.name", "metric.reporters", "kafka.metrics.reporters", "replica.selector.class",
    "client.quota.callback.class", "principal.builder.class", "create.topic.policy.class.name",
    "alter.config.policy.class.name", "ssl.engine.factory.class", "sasl.server.callback.handler.class",
    "sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class",
    "group.consumer.assignors",
)  # fmt: skip
"""settings with classes that a start loads, and ends without one; also after `listener.name.` and a listener"""
_OF_LISTENER = "listener.name."
_OF_KAFKA = ("org.apache.kafka.", "kafka.")
"""beginnings of the names of classes that a release brings along"""


def refuse_incomplete_properties(files: NodeFiles, role: Role, release: Release) -> None:
    """Raise `StartEndsError` if the properties of a KRaft node lack a setting that a start needs (`KafkaConfig`). It
    needs the roles and the node id. If controller listeners are set, it needs the voters or bootstrap servers of the
    quorum, and if one of these is set, the controller listeners. A broker without the controller role needs the
    listeners only from 4.0 on. From 4.2 on, also raise it if `log.dirs` has an empty name, as between two commas. Does
    nothing for a broker with ZooKeeper, or if the properties have none of these settings, because they then only name
    directories.
    """
    names = {name for name, value in files.properties.items() if value.strip()}
    if role is Role.ZOOKEEPER_BROKER or not names & {_ROLES, _NODE, _LISTENERS, *_QUORUM}:
        return
    directories = [name.strip() for name in files.properties.get("log.dirs", "").split(",")]
    if release.at_least("4.2") and len(directories) > 1 and "" in directories:
        message, cure = "Configuration 'log.dirs' values must not be empty.", "remove the comma without a name"
        raise ends(Part.PROPERTIES, "empty", files.roots[0], _CONFIG, message, cure=cure)
    exception, has_defaults = _CONFIG, release.at_least("4.0")
    if _ROLES not in names:
        message = _missing(_ROLES) if has_defaults else _missing("zookeeper.connect").replace('"', "`")
    elif not names & {_NODE, "broker.id"}:
        message = _missing(_NODE) if has_defaults else _NO_NODE
    elif _LISTENERS in names and not names.intersection(_QUORUM):
        message = _NO_QUORUM
    elif names.intersection(_QUORUM) and _LISTENERS not in names and has_defaults:
        message = _missing(_LISTENERS)
    elif names.intersection(_QUORUM) and _LISTENERS not in names and role is not Role.BROKER:
        exception, message = "java.lang.IllegalArgumentException", _NO_LISTENER
    else:
        return
    raise ends(Part.PROPERTIES, "missing", files.roots[0], exception, message)


def refuse_migration_without_zookeeper(files: NodeFiles, role: Role, release: Release) -> None:
    """Raise `StartEndsError` if the properties of a KRaft node go on with a migration from ZooKeeper, but do not say
    where ZooKeeper is (`KafkaConfig.validateValues`). Does nothing for releases without that setting: before 3.4, and
    from 4.0 on.
    """
    is_kraft = role is not Role.ZOOKEEPER_BROKER and _ROLES in files.properties
    if is_kraft and goes_on_migrating(files, release) and not files.properties.get(_ZOOKEEPER, "").strip():
        message = f"If using `{_MIGRATE}` in KRaft mode, `{_ZOOKEEPER}` must also be set."
        raise ends(Part.PROPERTIES, "migration", files.roots[0], _CONFIG, message, cure=_REMOVE_IT)


def goes_on_migrating(files: NodeFiles, release: Release) -> bool:
    """Whether the properties say to migrate from ZooKeeper, and the release knows that setting."""
    return release.at_least("3.4") and not release.at_least("4.0") and _is_on(files.properties, _MIGRATE)


def condition_of_migration(files: NodeFiles, image: MetadataImage, release: Release) -> str | None:
    """Return, for people, on which condition a controller starts whose properties say to migrate from ZooKeeper:
    ZooKeeper must answer (3.6.2, 3.9.1). If the metadata has no migration, another controller must also lead. None if
    the properties do not say so, or the release does not know the setting (before 3.4, from 4.0 on).
    """
    if not goes_on_migrating(files, release):
        return None
    until = f"if ZooKeeper answers at {files.properties.get(_ZOOKEEPER, '').strip()}"
    if not image.zk_migration_state:
        until += ", and only as long as another controller leads"
    return f"{until}, because {_MIGRATE} is true (if nothing is to be migrated, {_REMOVE_IT})"


def condition_of_classes(files: NodeFiles, role: Role) -> str | None:
    """Return a condition of a node's start, as a clause that begins with `if`: its class path has the classes, not
    Kafka's own, that its properties name, such as an authorizer. The clause has at most three classes with their
    settings, and the number of the others. Classes of a remote tier count only on a broker with
    `remote.log.storage.system.enable=true`. None if there are no such classes.
    """
    has_tier = role is not Role.CONTROLLER and _is_on(files.properties, _SYSTEM)
    classes = {
        class_name: name
        for name, value in sorted(files.properties.items())
        if _names_classes(name) and (has_tier or name not in _OF_TIER)
        for class_name in map(str.strip, value.split(","))
        if "." in class_name and not class_name.startswith(_OF_KAFKA)
    }
    if not classes:
        return None
    named = first_of([f"{class_name} ({name})" for class_name, name in classes.items()], _NAMED)
    return f"if its class path has the classes that the properties name: {named}"


def _names_classes(name: str) -> bool:
    of_listener = name.startswith(_OF_LISTENER) and name.endswith(tuple(f".{each}" for each in _OF_CLASSES))
    return name in _OF_CLASSES or of_listener


def _missing(name: str) -> str:
    return f'Missing required configuration "{name}" which has no default value.'


def refuse_small_segments(files: NodeFiles, image: MetadataImage, release: Release) -> None:
    """Raise `StartEndsError` if a topic's `segment.bytes`, or `log.segment.bytes` in the node's properties, is a number
    below 1 MiB, which 4.0 and later refuse (KIP-1030). Values that are not plain digits are ignored. Does nothing for
    earlier releases.

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
        if value.strip().isdecimal() and int(value) < _LEAST_SEGMENT_BYTES:
            message = (
                f"Invalid value {value.strip()} for configuration {name}: Value must be at least {_LEAST_SEGMENT_BYTES}"
            )
            raise ends(
                Part.METADATA_REPLAY, REFUSED_SETTING, files.metadata_root or min(files.roots),
                _CONFIG, message, detail=f"{owner} has {name}={value}",
            )  # fmt: skip


def consequences_of_migration(
    files: NodeFiles, image: MetadataImage, loaded: LoadedMetadata, release: Release
) -> tuple[Sequence[StartConsequence], Sequence[Fault]]:
    """Return consequences and faults for a leading controller whose metadata has an unfinished migration from
    ZooKeeper. If the migration has begun, the start ends it: one consequence and no fault, or nothing if the properties
    go on with it. If it has not begun, the controller registers no broker: one consequence and one fault. Both lists
    are empty from 4.0 on, and if no migration is unfinished.

    Raises `StartEndsError` if the properties say to migrate (3.4 to 3.9), and the metadata is of a cluster that never
    used ZooKeeper (`ActivationRecordsGenerator`).
    """
    state, goes_on = image.zk_migration_state, goes_on_migrating(files, release)
    if goes_on and not state:
        is_early = image.features.get("metadata.version", 0) < _FIRST_MIGRATING_LEVEL
        where = "running metadata.version" if is_early else "that was created in KRaft mode."
        message = f"Should not have ZK migrations enabled on a cluster {where}"
        raise ends(Part.METADATA_REPLAY, "migration", loaded.directory, RUNTIME, message, cure=_REMOVE_IT)
    if release.at_least("4.0") or state not in (_MIGRATION, _PRE_MIGRATION) or (goes_on and state == _MIGRATION):
        return (), ()
    if state == _MIGRATION:
        detail = "the migration from ZooKeeper is ended, unless the properties go on with it"
        return (StartConsequence(kind=ConsequenceKind.MIGRATION_ENDED, detail=detail, file=loaded.directory),), ()
    detail = (
        "the metadata says that the migration from ZooKeeper has not begun: until it has, the controller registers no "
        "broker and changes nothing else"
    )
    return (
        (StartConsequence(kind=ConsequenceKind.NOT_SERVING, detail=detail, file=loaded.directory),),
        (Fault(part=Part.METADATA_REPLAY, kind="migration", file=loaded.directory, detail=detail),),
    )


def accepts_unreleased(properties: Mapping[str, str]) -> bool:
    """Whether a controller with these server properties accepts a `metadata.version` that its release knows but has not
    released. Kafka 4.1.1 with the setting starts on the level of 4.2.
    """
    return any(_is_on(properties, name) for name in _UNRELEASED)


def _is_on(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"


def consequences_without_tier(files: NodeFiles, image: MetadataImage) -> Sequence[StartConsequence]:
    """Return one consequence about the topics with a remote tier (tiered storage) if the broker's properties do not
    enable it: only their local records are served. It names at most three topics, and counts the rest. Empty if there
    are no such topics, the tier is enabled, or there are no properties.
    """
    if not files.properties or _is_on(files.properties, _SYSTEM):
        return ()
    names = sorted(
        resource.partition(":")[2] or resource
        for resource, values in image.configs.items()
        if values.get(_TOPIC, "").lower() == "true"
    )
    if not names:
        return ()
    shown = first_of(names, _NAMED)
    detail = f"the broker has no remote tier ({_SYSTEM} is not true): of {shown} only what is local is served"
    return (StartConsequence(kind=ConsequenceKind.OTHER, detail=detail),)
