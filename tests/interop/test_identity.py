"""Every `meta.properties` that Kafka's start declines is an error of `verify`, and every one that it takes is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.recovery import plan
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

NODE = 12
_CLUSTER = "cluster.id=TRSnWMH_9R7lcefrZ6_Rxw\n"
_SOUND = f"version=1\nnode.id={NODE}\n{_CLUSTER}"
TEXTS = {
    "sound": _SOUND,
    "without its last line end": _SOUND.rstrip("\n"),
    "line ends of Windows": _SOUND.replace("\n", "\r\n"),
    "signs": f"version=+1\nnode.id=+{NODE}\n{_CLUSTER}",
    "blanks around the version": f"version= 1 \nnode.id={NODE}\n{_CLUSTER}",
    "a blank behind the node": f"version=1\nnode.id={NODE} \n{_CLUSTER}",
    "version 0": f"version=0\nbroker.id={NODE}\n{_CLUSTER}",
    "no version": f"broker.id={NODE}\n{_CLUSTER}",
    "version 0 with a blank behind the broker": f"version=0\nbroker.id={NODE} \n{_CLUSTER}",
    "version 0 with a node": f"version=0\nnode.id={NODE}\n{_CLUSTER}",
    "version 0 without a cluster": f"version=0\nbroker.id={NODE}\n",
    "version 0 without a broker": f"version=0\n{_CLUSTER}",
    "version 0 with a broker that is no number": f"version=0\nbroker.id=x\n{_CLUSTER}",
    "empty": "",
    "a comment": "#Thu Jan 01 00:00:00 UTC 1970\n",
    "zeros": "\0" * 50,
    "version 1 without a node": f"version=1\n{_CLUSTER}",
    "version 1 without a cluster": f"version=1\nnode.id={NODE}\n",
    "version 2": f"version=2\nnode.id={NODE}\n{_CLUSTER}",
    "a version that is empty": f"version=\nnode.id={NODE}\n{_CLUSTER}",
    "half an escape": "\\u12",
    "a directory id that is none": f"{_SOUND}directory.id=abc\n",
    "a directory id of 17 bytes": f"{_SOUND}directory.id={'A' * 23}\n",
    "a directory id that is reserved": f"{_SOUND}directory.id=AAAAAAAAAAAAAAAAAAAAAQ\n",
    "a reserved directory id with idle bits": f"{_SOUND}directory.id=AAAAAAAAAAAAAAAAAAAAA1\n",
    "a directory id": f"{_SOUND}directory.id=ZKtOFFzXTrKXvgQZgSUgFA\n",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_copy(brokers("4.1.1/segments")[0], tmp_path_factory.mktemp("identity") / "broker")


@pytest.mark.parametrize("name", TEXTS)
def test_verify_says_what_kafka_does(name: str, root: Path, tmp_path: Path, kafka: KafkaOracle) -> None:
    for place, text in (("data", TEXTS[name]), ("metadata", _SOUND)):
        (tmp_path / place).mkdir()
        (tmp_path / place / "meta.properties").write_text(text, newline="")
    answer = kafka.identity(tmp_path / "data", tmp_path / "metadata", NODE)
    (root / "meta.properties").write_text(TEXTS[name], newline="")
    (line,) = kafkalog("verify", "--json", root).objects
    found = [each for each in line["findings"] if each["code"] == FindingCode.META_PROPERTIES_INVALID]
    assert [each["severity"] for each in found] == ([] if answer["outcome"] == "loaded" else [Severity.ERROR])
    if found:
        metadata_is_beside = answer["outcome"] == "dir_offline"  # there is one directory here, and it holds both
        assert line["broker"]["outcome"] == ("start_fails" if metadata_is_beside else answer["outcome"])
        planned = plan(root)[0]
        assert planned.broker.outcome == line["broker"]["outcome"]
        said = [each.detail for each in planned.findings if each.code is FindingCode.META_PROPERTIES_INVALID]
        assert said == [each["detail"] for each in found]
        if not metadata_is_beside and "reserved" in name:
            assert line["broker"]["message"] == answer["message"].replace("DIR", str(root))


@pytest.mark.parametrize("name", TEXTS)
def test_a_link_is_followed_by_kafka_and_by_a_plan(name: str, tmp_path: Path, kafka: KafkaOracle) -> None:
    """It leads to a file with another name, elsewhere."""
    target = tmp_path / "node.properties"
    target.write_text(TEXTS[name], newline="")
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "broker")
    (root / "meta.properties").unlink()
    for place in ("data", "metadata"):
        (tmp_path / place).mkdir()
    (tmp_path / "metadata" / "meta.properties").write_text(_SOUND)
    for place in ("data", "broker"):
        (tmp_path / place / "meta.properties").symlink_to(target)
    answer = kafka.identity(tmp_path / "data", tmp_path / "metadata", NODE)
    forecast = plan(root)[0].broker
    metadata_is_beside = answer["outcome"] == "dir_offline"  # there is one directory here, and it holds both
    assert forecast.outcome == ("start_fails" if metadata_is_beside else answer["outcome"])
    if metadata_is_beside:
        assert (forecast.message or "").startswith("Error while reading meta.properties file")


@pytest.mark.parametrize("version", ["4.1.0", "4.3.0", "4.4.0"])
@pytest.mark.parametrize("is_alone", [True, False])
def test_a_directory_that_has_none(
    version: str, is_alone: bool, tmp_path: Path, kafka_of: Callable[[str], KafkaOracle]
) -> None:
    """Alone, or beside another directory of the broker that has one and the metadata log."""
    data = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    other = data
    if not is_alone:
        other = tmp_path / "other"
        other.mkdir()
        (data / "__cluster_metadata-0").rename(other / "__cluster_metadata-0")
        (other / "meta.properties").write_text(_SOUND)
    (data / "meta.properties").unlink()
    answer = kafka_of(version).identity(data, other, NODE)
    assert answer["outcome"] == "start_fails"
    words = [data] if is_alone else [data, other]
    line = kafkalog("plan", "--json", *words).objects[0]
    assert (line["broker"]["outcome"], line["broker"]["exception"]) == ("start_fails", answer["exception"])
    assert line["broker"]["message"] == answer["message"].replace("DIR", str(data)).replace("METADATA", str(other))
    verified = kafkalog("verify", "--json", *words).objects[0]
    assert verified["broker"] == {name: line["broker"][name] for name in verified["broker"]}
    told = kafkalog("plan", *words)
    assert told.code == 1
    assert "would NOT START" in told.out
    assert "meta_properties_invalid (meta.properties): it is missing" in told.out
