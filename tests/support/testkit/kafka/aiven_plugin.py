"""Aiven's plugin for tiered storage with its backend for a directory, compiled from its source, and what it is told.

It is not published as a jar: `git clone` its repository, Aiven-Open/tiered-storage-for-apache-kafka, at `VERSION`.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from testkit.kafka import kafka_jars

VERSION = "v1.0.0"
"""the last one without Iceberg; what it writes is what those after it write"""
_COMPILED_AGAINST = "4.1.0"
_MODULES = ("commons", "storage/core", "storage/filesystem", "core")
_NEEDS = (
    "org.bouncycastle:bcprov-jdk18on:1.80",
    "com.fasterxml.jackson.core:jackson-databind:2.19.0",
    "com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.19.0",
    "com.github.luben:zstd-jni:1.5.6-9",
    "com.github.ben-manes.caffeine:caffeine:3.2.0",
    "commons-io:commons-io:2.19.0",
    "com.bucket4j:bucket4j_jdk11-core:8.14.0",
)
CHUNK = 1500


def compiled(source: Path, work: Path) -> str:
    """A class path of the plugin alone, for `remote.log.storage.manager.class.path`."""
    listed = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>".format(
            *each.split(":")
        )
        for each in _NEEDS
    )
    work.mkdir(parents=True, exist_ok=True)
    (work / "pom.xml").write_text((kafka_jars.HARNESS / "pom.xml").read_text().replace("<!-- dependencies -->", listed))
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={work / 'lib'}"]
    subprocess.run(command, cwd=work, check=True)
    sources = {
        str(path.relative_to(source)): path.read_text()
        for module in _MODULES
        for path in sorted((source / module / "src" / "main" / "java").rglob("*.java"))
    }
    kafka_jars.setup(_COMPILED_AGAINST)
    jars = [*kafka_jars.jars(_COMPILED_AGAINST), *sorted((work / "lib").glob("*.jar"))]
    kafka_jars.compile_java(_COMPILED_AGAINST, sources, work / "classes", ":".join(map(str, jars)))
    subprocess.run(["jar", "cf", str(work / "lib" / "plugin.jar"), "-C", str(work / "classes"), "."], check=True)
    return f"{work / 'lib'}/*"


def output_of(class_path: str, source: Path, main: str) -> str:
    """What a Java program prints that uses the plugin's classes."""
    jars = ":".join([class_path, *map(str, kafka_jars.jars(_COMPILED_AGAINST))])
    with tempfile.TemporaryDirectory() as target:
        kafka_jars.compile_java(_COMPILED_AGAINST, {source.name: source.read_text()}, Path(target) / "classes", jars)
        command = ["java", "-cp", f"{target}/classes:{jars}", main]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def make_keys(target: Path, *names: str) -> None:
    """A pair of RSA keys for each name, as PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        key = rsa.generate_private_key(65537, 2048)
        (target / f"{name}.private.pem").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        (target / f"{name}.public.pem").write_bytes(
            key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )


def settings(
    class_path: str, root: Path, prefix: str, keys: Path, *, compress: bool = False, key: str | None = None
) -> dict[str, object]:
    """What a broker is told; `key` is the pair that new segments are encrypted with, if any."""
    plugin = "io.aiven.kafka.tieredstorage"
    pairs = sorted(path.name.partition(".")[0] for path in keys.glob("*.private.pem"))
    own: dict[str, object] = {
        "storage.backend.class": f"{plugin}.storage.filesystem.FileSystemStorage",
        "storage.root": root,
        "key.prefix": prefix,
        "chunk.size": CHUNK,
        "compression.enabled": str(compress).lower(),
        "encryption.enabled": str(key is not None).lower(),
        "custom.metadata.fields.include": "REMOTE_SIZE,OBJECT_PREFIX,OBJECT_KEY" if compress else "",
    }
    if key is not None:
        own |= {"encryption.key.pair.id": key, "encryption.key.pairs": ",".join(pairs)}
        for each in pairs:
            own[f"encryption.key.pairs.{each}.public.key.file"] = keys / f"{each}.public.pem"
            own[f"encryption.key.pairs.{each}.private.key.file"] = keys / f"{each}.private.pem"
    return {
        "remote.log.storage.manager.class.name": f"{plugin}.RemoteStorageManager",
        "remote.log.storage.manager.class.path": class_path,
        **{f"rsm.config.{name}": value for name, value in own.items()},
    }
