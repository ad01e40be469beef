"""Kafka's own defaults of its settings, asked of its classes; `--write` stores them in `cluster/rules/schemas`.

A name has a list of [metadata.version, value]: from the release on that supports at most that level.  None is a setting
that has no value; a name that is not in a release has the value False there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from testkit.kafka import kafka_jars

_RULES = Path(__file__).resolve().parents[2] / "src" / "kafkalog" / "cluster" / "rules"
TABLE = _RULES / "schemas" / "config_defaults.json"
RELEASES = {21: "3.9.1", 27: "4.1.0", 30: "4.3.0", 33: "4.4.0"}
"""the highest metadata.version that a broker of a release registers with -> the release"""

_PROGRAM = """
import java.lang.reflect.*;
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;

public final class Defaults {
    static Object field(String type, String name) throws Exception {
        Field field = Class.forName(type).getDeclaredField(name);
        field.setAccessible(true);
        return field.get(null);
    }

    static ConfigDef brokers() throws Exception {
        try {
            return (ConfigDef) field("org.apache.kafka.server.config.AbstractKafkaConfig", "CONFIG_DEF");
        } catch (ReflectiveOperationException older) {
            Object module = field("kafka.server.KafkaConfig$", "MODULE$");
            return (ConfigDef) module.getClass().getMethod("configDef").invoke(module);
        }
    }

    static void print(String kind, ConfigDef all) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(all.configKeys()).values()) {
            if (key.internalConfig || !key.hasDefault()) continue;
            String value = ConfigDef.convertToString(key.defaultValue, key.type);
            System.out.println(kind + "\\t" + key.name + "\\t" + (value == null ? "" : "=" + value));
        }
    }

    public static void main(String[] arguments) throws Exception {
        print("topic", (ConfigDef) Class.forName("org.apache.kafka.storage.internals.log.LogConfig")
            .getMethod("configDefCopy").invoke(null));
        print("broker", brokers());
    }
}
"""


def of_release(version: str) -> dict[str, dict[str, str | None]]:
    """What Kafka's classes say: kind of resource -> name -> default."""
    classes = kafka_jars.compiled(version, "defaults", {"Defaults.java": _PROGRAM})
    command = kafka_jars.java(version, "Defaults", classes=(classes,))
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found: dict[str, dict[str, str | None]] = {"topic": {}, "broker": {}}
    for line in done.stdout.splitlines():
        kind, name, value = line.split("\t")
        found[kind][name] = value[1:] if value else None
    return found


def table() -> dict[str, Any]:
    """All releases together, a value where it differs from that of the release before."""
    told = {level: of_release(version) for level, version in sorted(RELEASES.items())}
    made: dict[str, Any] = {"levels": sorted(RELEASES)}
    for kind in ("topic", "broker"):
        names = sorted({name for each in told.values() for name in each[kind]})
        made[kind] = {name: _changes([(level, each[kind].get(name, False)) for level, each in told.items()])
                      for name in names}  # fmt: skip
    return made


def _changes(values: list[tuple[int, str | bool | None]]) -> list[list[object]]:
    made: list[list[object]] = []
    for level, value in values:
        if not made or made[-1][1] != value:
            made.append([level, value])
    return made


def written(made: dict[str, Any]) -> str:
    """A line for each name, so that a new release shows in a comparison."""
    lines = [f'"levels": {json.dumps(made["levels"])}']
    for kind in ("topic", "broker"):
        names = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in made[kind].items())
        lines.append(f'"{kind}": {{\n{names}\n}}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__" and "--write" in sys.argv:
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(written(table()), encoding="utf-8")
