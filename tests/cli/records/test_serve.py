"""`kafkalog serve` as a program: what it says, how it ends, and what it declines."""

from __future__ import annotations

import shutil
import signal
import socket
import ssl
import time
from pathlib import Path

import pytest

from kafkalog.cli.records.serve_access import Certificates
from kafkalog.log.directories.selection import Selection
from kafkalog.server.catalog import Catalog
from testkit.recorded.broker_dirs import brokers, own_copy, unpacked
from testkit.running.command import kafkalog
from testkit.serving.raw_client import RawClient, fetching
from testkit.serving.self_signed import self_signed
from testkit.serving.the_server import STOP_SECONDS, listening, the_command

TXN = brokers("4.3.0/txn")[0]
ZKHIST = brokers("2.8.2/zkhist")


def address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_listens_and_ends_when_it_is_told(number: signal.Signals) -> None:
    with listening(TXN) as (bootstrap, process), RawClient(address(bootstrap)) as client:
        assert client.ask("Metadata", 12, topics=None)["cluster_id"]
        process.send_signal(number)
        rest, errors = process.communicate(timeout=STOP_SECONDS)
    assert (process.returncode, rest, errors) == (0, "", "")


def test_what_clients_are_told_of_the_cluster() -> None:
    known = dict(line.split("=", 1) for line in (TXN / "meta.properties").read_text().splitlines() if "=" in line)
    with listening("--advertise", "logs.example:0", TXN) as (bootstrap, _):
        host, port = address(bootstrap)
        assert host == "logs.example"
        with RawClient(("127.0.0.1", port)) as client:
            answer = client.ask("Metadata", 12, topics=[])
            assert answer["cluster_id"] == known["cluster.id"]
            assert answer["brokers"] == [
                {"node_id": int(known["node.id"]), "host": "logs.example", "port": port, "rack": None}
            ]


def test_signals_mean_what_they_meant_where_it_cannot_listen() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        finished = kafkalog("serve", "--listen", f"127.0.0.1:{taken.getsockname()[1]}", TXN)
    assert finished.code == 4, finished.err
    assert [signal.getsignal(number) for number in numbers] == before


def test_only_what_is_selected() -> None:
    selection = ("--topic", "orders-*", "--partition", 1)
    with listening(*selection, TXN) as (bootstrap, _), RawClient(address(bootstrap)) as client:
        (topic,) = client.ask("Metadata", 12, topics=None)["topics"]
    assert topic["name"] == "orders-20"
    assert [(each["error_code"], each["leader_id"] >= 0) for each in topic["partitions"]] == [(5, False), (0, True)]


def test_a_partition_in_two_directories() -> None:
    finished = kafkalog("serve", *ZKHIST)
    assert finished.code == 64
    assert all(str(path) in finished.err for path in ZKHIST)
    assert "--replica" in finished.err
    with listening("--replica", "longest", *ZKHIST) as (bootstrap, _), RawClient(address(bootstrap)) as client:
        assert client.ask("Metadata", 12, topics=None)["topics"]


def test_the_directory_above_its_volumes() -> None:
    assert Catalog([unpacked("4.3.0/txn")]).topics.keys() == Catalog([TXN]).topics.keys()


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        finished = kafkalog("serve", "--listen", f"127.0.0.1:{port}", TXN)
    assert finished.code == 4
    assert len(finished.err.splitlines()) == 1
    where = f"127.0.0.1:{port}"
    why = "another program does, so the port is in use; port 0 is any that is free"
    assert finished.err == f"kafkalog: {where}: cannot listen there: {why}\n"


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("192.0.2.1", "this machine does not have the address"),
        ("no.such.host.invalid", "no address is known for this name"),
        ("ä" * 64, "that is not the name of a machine"),
    ],
)
def test_an_address_that_is_somebody_elses(host: str, told: str) -> None:
    finished = kafkalog("serve", "--listen", f"{host}:9092", "--insecure", TXN)
    assert (finished.code, len(finished.err.splitlines())) == (4, 2)
    assert f"\nkafkalog: {host}:9092: cannot listen there: " in finished.err
    assert told in finished.err


@pytest.mark.parametrize(
    "words",
    [
        ["--listen", "nowhere"], ["--listen", "h:99999"], ["--listen", "a:b:9092"], ["--tls-key", "k"],
        ["--max-connections", "0"], ["--refresh", "-1"], ["nothing here"],
    ],
)  # fmt: skip
def test_what_makes_no_sense(words: list[str]) -> None:
    finished = kafkalog("serve", *words, TXN)
    assert finished.code == 64
    assert len(finished.err.splitlines()) == 1


def test_files_that_hold_something_else(tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("nonsense: [\n")
    for option in ("--tls-certificate", "--offsets-file"):
        finished = kafkalog("serve", option, nonsense, TXN)
        assert (finished.code, len(finished.err.splitlines())) == (64, 1)
    empty = tmp_path / "empty"
    empty.write_text("")
    assert kafkalog("serve", "--users", empty, TXN).code == 64
    assert kafkalog("serve", "--users", tmp_path / "missing", TXN).code == 4
    prose = tmp_path / "prose"
    for line, text in ((2, "anna=s3cret\nberta s3cret\n"), (1, "[2026] INFO a=b\n"), (1, "anna=\n"), (1, "a: b\n")):
        prose.write_text(text)
        finished = kafkalog("serve", "--users", prose, TXN)
        assert (finished.code, finished.err) == (64, f"kafkalog: {prose}: line {line} is not name=password\n")
    inside = kafkalog("serve", "--offsets-file", TXN / "offsets", TXN)
    assert (inside.code, "inside the log directory" in inside.err) == (64, True)
    nowhere = kafkalog("serve", "--offsets-file", tmp_path / "missing" / "offsets", TXN)
    assert (nowhere.code, f"{tmp_path / 'missing'} is not a directory" in nowhere.err) == (64, True)


def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no certificate")
    missing = kafkalog("serve", "--tls-certificate", tmp_path / "missing", TXN)
    assert (missing.code, missing.err) == (4, f"kafkalog: {tmp_path / 'missing'}: there is no such file\n")
    neither = kafkalog("serve", "--tls-certificate", text, TXN)
    assert (neither.code, neither.err) == (
        64, f"kafkalog: {text} is not a certificate in PEM with its key: nothing in it is one\n"
    )  # fmt: skip


def test_a_partition_that_is_not_there() -> None:
    finished = kafkalog("serve", "--topic", "orders-20", "--partition", 7, TXN)
    assert "topic 'orders-20' has no partition 7 here; it has partitions 0, 1" in finished.err


def test_damage_is_told_on_standard_error(tmp_path: Path) -> None:
    case = brokers("4.3.0/torn")[0]
    with listening("--skip-damaged", case) as (bootstrap, process):
        with RawClient(address(bootstrap)) as client:
            for topic in client.ask("Metadata", 12, topics=None)["topics"]:
                for each in topic["partitions"]:
                    for offset in range(60):
                        client.ask("Fetch", 11, **fetching(topic["name"], {each["partition_index"]: offset}))
        process.terminate()
        out, errors = process.communicate(timeout=STOP_SECONDS)
    assert (process.returncode, out) == (0, "")
    assert errors.splitlines()
    assert all(line.endswith((", and left out", "clients are told that it ends at offset " + line.rpartition(" ")[2]))
               for line in errors.splitlines())  # fmt: skip


def test_for_people() -> None:
    with the_command("--listen", "127.0.0.1:0", TXN) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening: 127.0.0.1:")
        assert "nothing is written" in process.stdout.readline()
        process.terminate()
        process.communicate(timeout=STOP_SECONDS)


def test_partitions_whose_logs_are_elsewhere_are_counted(tmp_path: Path) -> None:
    part = own_copy(TXN, tmp_path / "part")
    shutil.rmtree(part / "orders-20-1")
    with the_command("--listen", "127.0.0.1:0", part) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert " (not here: 1 further partition of this cluster); nothing" in process.stdout.readline()
        process.terminate()
        process.communicate(timeout=STOP_SECONDS)
    assert Catalog([part], chosen=Selection.of(partitions=[0])).absent_count == 0
    assert Catalog([TXN]).absent_count == 0


def test_everybody_may_read_only_if_that_is_wanted(tmp_path: Path) -> None:
    elsewhere = ("--listen", "0.0.0.0:0", "--advertise", "127.0.0.1:0")
    declined = kafkalog("serve", *elsewhere, TXN)
    assert declined.code == 3
    assert "everybody who reaches 0.0.0.0 can read 5 topics: __consumer_offsets, " in declined.err
    assert "--insecure" in declined.err
    users = tmp_path / "users.properties"
    users.write_text("anna=s3cret")
    users.chmod(0o600)
    declined = kafkalog("serve", *elsewhere, "--users", users, TXN)
    assert (declined.code, "passwords and the records of 5 topics" in declined.err) == (3, True), declined.err
    with the_command(*elsewhere, "--insecure", TXN) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening: 127.0.0.1:")
        process.terminate()
        _, told = process.communicate(timeout=STOP_SECONDS)
    assert "everybody who reaches 0.0.0.0 can read 5 topics" in told


@pytest.mark.parametrize("given", [("--listen", "0.0.0.0:0"), ("--listen", "[::]:0"), ("--advertise", "0.0.0.0:9092")])
def test_clients_are_told_of_an_address_that_is_one(given: tuple[str, str]) -> None:
    declined = kafkalog("serve", *given, "--insecure", TXN)
    assert (declined.code, "no client can connect to that" in declined.err) == (64, True), declined.err


def test_a_new_certificate_needs_no_restart(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for each in (first, second):
        each.mkdir()
    certificate, key = self_signed(first)
    with listening("--tls-certificate", certificate, "--tls-key", key, TXN) as (bootstrap, process):

        def served() -> str:
            return ssl.get_server_certificate(address(bootstrap))

        before = served()
        assert before.split() == certificate.read_text().split()
        other, its_key = self_signed(second)
        certificate.write_text(other.read_text())  # a moment without its key
        until = time.monotonic() + 20
        time.sleep(1.5)
        assert served() == before
        key.write_text(its_key.read_text())
        while served().split() != other.read_text().split():
            assert time.monotonic() < until
            time.sleep(0.2)
        process.terminate()
        _, told = process.communicate(timeout=STOP_SECONDS)
    assert "the certificate stays as it was: " in told
    assert "the certificate was read again" in told


def test_a_certificate_that_became_far_too_large_leaves_the_one_before(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    loaded = Certificates(str(certificate), str(key), None)
    with certificate.open("r+b") as file:
        file.truncate(1 << 25)
    told: list[str] = []
    loaded.reload(told.append)
    assert [sentence.partition(":")[0] for sentence in told] == ["the certificate stays as it was"]


def test_a_client_ca_that_was_removed_is_not_trusted_any_more(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for each in (first, second):
        each.mkdir()
    certificate, key = self_signed(first)
    trusted = tmp_path / "clients.pem"
    trusted.write_text(certificate.read_text())
    loaded = Certificates(str(certificate), str(key), str(trusted))
    before = loaded.context().get_ca_certs()
    other, _ = self_signed(second)
    trusted.write_text(other.read_text())
    loaded.reload(lambda _text: None)
    (only,) = loaded.context().get_ca_certs()
    assert len(before) == 1
    assert [only] != before


def test_passwords_that_others_can_read_are_told(tmp_path: Path) -> None:
    users = tmp_path / "users.properties"
    users.write_text("anna=s3cret")
    for mode, is_told in ((0o644, True), (0o600, False)):
        users.chmod(mode)
        with listening("--users", users, TXN) as (_, process):
            process.terminate()
            _, told = process.communicate(timeout=STOP_SECONDS)
        assert ("others on this machine can read the passwords" in told) == is_told
