"""`kafkalog report`: what the page says is what verify, plan, compare and runs say, and no data becomes markup."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kafkalog as library
from kafkalog.cli.looking.report_place import place
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.wording import moment_text
from kafkalog.codec.model import BATCH, MESSAGE_V0
from kafkalog.reporting import page as page_parts
from kafkalog.words.escapes import escape_controls
from testkit.judging.trees import stamps
from testkit.made.batches import simple
from testkit.made.odd_names import hostile_directory
from testkit.recorded.broker_dirs import brokers, own_copy, unpacked
from testkit.recorded.fixture_data import recovery_cases, unpack_replicas
from testkit.running.command import kafkalog
from testkit.running.page import Node, data_of, parsed, table_named
from testkit.running.shares import EACH

DAMAGED = sorted({case.family for case in recovery_cases()})


def page_of(*arguments: object, code: int | None = None) -> Node:
    finished = kafkalog("report", *arguments, "-o", "-")
    assert "Traceback" not in finished.err
    if code is not None:
        assert finished.code == code
    return parsed(finished.out)


def objects(command: str, *arguments: object) -> list[dict[str, Any]]:
    return kafkalog(command, "--json", *arguments).objects


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    return recovery_cases(["torn_tail"])[0].unpack_before(tmp_path / "logs")


@pytest.fixture
def flipped(tmp_path: Path) -> Path:
    return recovery_cases(["bit_flip"])[0].unpack_before(tmp_path / "logs")


def test_an_installation_without_a_part_of_the_page_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="lacks page/missing"):
        page_parts._part("missing.css")


# --- one file that asks nobody for anything -------------------------------------------------------------------------


def test_the_policy_allows_this_style_and_this_script_and_nothing_else(torn: Path) -> None:
    page = page_of(torn, code=1)
    (policy,) = page.all("meta", http_equiv="Content-Security-Policy")
    rules = dict(rule.split(" ", 1) for rule in str(policy.attributes["content"]).split("; "))

    def digest(text: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    (script,) = [each for each in page.all("script") if not each.attributes]
    assert rules == {
        "default-src": "'none'",
        "style-src": digest(page.one("style").text),
        "script-src": digest(script.text),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_the_page_names_no_other_place(torn: Path) -> None:
    page = page_of(torn)
    for node in page.all("link") + page.all("a") + page.all("script") + page.all("img") + page.all("iframe"):
        for name in ("href", "src"):
            target = node.attributes.get(name)
            assert target is None or target.startswith("#") or target == "data:,"
    assert "url(" not in re.sub(r"url\(#p-[A-Z]\)", "", page.one("style").text)
    assert "@import" not in page.one("style").text
    names = {name for node in every(page) for name in node.attributes}
    assert not [name for name in names if name.startswith("on") or name == "style"]


def every(node: Node) -> list[Node]:
    return [each for child in node.children for each in (child, *every(child))]


def test_the_index_names_every_section_and_every_id_is_there_once(flipped: Path) -> None:
    page = page_of(flipped)
    ids = [str(node.attributes["id"]) for node in every(page) if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    links = [str(each.attributes["href"])[1:] for each in page.one("nav").all("a")]
    assert links == [str(each.attributes["id"]) for each in page.all("section")]
    assert links[:2] == ["ways", "damage"]
    assert [each.name for each in page.one("main").children] == ["section"] * len(links)


# --- escapes --------------------------------------------------------------------------------------------------------


def test_nothing_from_data_becomes_markup(tmp_path: Path) -> None:
    root = hostile_directory(tmp_path)
    finished = kafkalog("report", root, "-o", "-")
    page = parsed(finished.out)
    assert not page.all("img")
    assert len(page.all("script")) == 2
    assert not page.all("b", class_="x")
    names = {each.text for each in page.all("code")}
    assert any("a<script><img src=x onerror=alert(1)>`|@all-0" in each for each in names)
    assert not set(finished.out) & set("\x1b\u202e\u2028\x00")
    segments = data_of(page)["map"]["segments"]
    assert segments[0]["name"].startswith("a<script>")
    assert finished.out.count("</script>") == 2


def test_nothing_from_data_becomes_markdown(tmp_path: Path) -> None:
    root = hostile_directory(tmp_path)
    text = kafkalog("report", root, "-o", "-", "--format", "md").out
    assert not re.search(r"(?<!\\)<img", re.sub(r"`+[^`]*`+", "", re.sub(r"``.*?``", "", text)))
    assert not set(text) & set("\x1b\u202e\u2028")
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| way"):
            assert len(re.findall(r"(?<!\\)\|", line)) in (5, 6), line


# --- the content is that of the commands ----------------------------------------------------------------------------


@pytest.mark.parametrize("family", DAMAGED)
def test_the_findings_are_those_of_verify(family: str, tmp_path: Path) -> None:
    root = recovery_cases([family])[-1].unpack_before(tmp_path / "logs")
    before = stamps(root)
    checked = kafkalog("verify", "--json", root)
    serious = [each for each in checked.objects[0]["findings"] if each["severity"] != "info"]
    finished = kafkalog("report", root, "-o", "-")
    assert finished.code == checked.code
    assert stamps(root) == before
    page = parsed(finished.out)
    shown = [
        (each.one("span", class_="code").text, each.one("span", class_="note").text)
        for each in [found.one("summary") for found in page.all("details", class_="finding")]
    ]
    assert bool(shown) == bool(serious)
    assert {code for code, _detail in shown} == {each["code"] for each in serious}
    known = {(each["code"], escape_controls(each["detail"][:600]).lower()) for each in serious}
    assert {(code, detail.partition("… (")[0].rstrip(".").lower()) for code, detail in shown} <= known
    assert f"Exit code {checked.code}:" in page.one("div", role="status").text


@pytest.mark.parametrize("family", ["bit_flip", "random_mix", "torn_tail", "overflow", "middle_cut"])
def test_the_ways_are_those_of_plan(family: str, tmp_path: Path) -> None:
    root = recovery_cases([family])[0].unpack_before(tmp_path / "logs")
    (planned,) = objects("plan", root, "--at", "1700000100000")
    page = page_of(root, "--at", "1700000100000")
    told = page.one("section", id="ways")
    if any(way["records_lost"] != 0 or not way["records_lost_is_exact"] for way in planned["ways"]):
        rows = table_named(told, "The possible ways").rows()
        assert [row[1].split() for row in rows] == [way["needs"] or ["nothing"] for way in planned["ways"]]
        assert [row[2].replace(",", "") for row in rows] == [
            "unknown" if way["records_kept"] is None else str(way["records_kept"]) for way in planned["ways"]
        ]
        (best,) = [row for row in rows if "(recommended)" in row[0]]
        assert best[0].startswith(planned["recommended"]) or planned["recommended"] in best[0]
    command = told.all("pre")[0].text
    assert command.startswith(f"kafkalog recover {root}")
    assert command in kafkalog("plan", root, "--at", "1700000100000").out or not planned["ways"] or "--yes" in command
    assert "--at 1700000100000" in command


def test_the_command_in_the_report_recovers_and_the_next_report_says_how_to_undo_it(flipped: Path) -> None:
    before = stamps(flipped)
    command = page_of(flipped, code=1).one("section", id="ways").all("pre")[0].text
    assert kafkalog(*command.split()[1:]).code == 2
    page = page_of(flipped, code=0)
    assert "Clean: " in page.one("div", role="status").text
    (run,) = objects("runs", flipped)[0]["runs"]
    (row,) = table_named(page, f"Recoveries of {flipped}").rows()
    assert row[0] == run["run_id"]
    undo = row[-1].split()
    assert undo == ["kafkalog", "undo", str(flipped), "--run", run["run_id"]]
    assert undo[-1] in kafkalog("report", flipped, "-o", "-", "--format", "md").out
    assert kafkalog(*undo[1:], "--yes").code == 2
    assert stamps(flipped) == before


@pytest.mark.parametrize("case", ["4.1.1/txn", "3.9.1-zk/groups", "0.8.2.2/codecs", "2.8.2/zkhist", "4.3.0/torn"])
def test_the_inventory_is_that_of_ls(case: str) -> None:
    directories = objects("ls", unpacked(case))
    listed = [partition for directory in directories for partition in directory["partitions"]]
    page = page_of(unpacked(case))
    rows = table_named(page, "Partitions").rows()
    wanted = {
        (str(each["path"]), each["topic"] + f"-{each['partition']}", str(each["log_start_offset"])) for each in listed
    }
    assert {(f"{row[11]}/{row[0]}", row[0], row[5]) for row in rows if row[1] == "live"} == {
        each for each in wanted if each[0].endswith(each[1])
    }
    counts = {f"{each['topic']}-{each['partition']}": str(len(each["segments"])) for each in listed}
    assert {row[0]: row[3] for row in rows} == counts
    assert len(table_named(page, "Log directories").rows()) == len(directories)


def test_copies_on_three_brokers_are_compared(tmp_path: Path) -> None:
    unpack_replicas(tmp_path)
    paths = [tmp_path / f"broker-{number}" for number in (1, 2, 3)]
    compared = objects("compare", *paths)
    page = page_of(*paths, code=1)
    rows = table_named(page, "Partitions whose copies are not equal and complete").rows()
    differing = [each for each in compared if each["kind"] == "partition" and not each["clean"]]
    told = [(f"{each['topic']}-{each['partition']}", str(copy["log_end_offset"])) for each in differing
            for copy in each["copies"]]  # fmt: skip
    assert [(row[0], row[3]) for row in rows] == told
    assert "3 of 4 partitions with several copies have copies that differ" in page.one("div", role="status").text
    text = kafkalog("report", *paths, "-o", "-", "--format", "md").out
    assert "### Copies: 3 of " in text
    assert "diverges at 90" in page.one("section", id="copies").text


def test_zookeepers_directory_tells_the_isrs() -> None:
    root = unpacked("2.8.2/zkhist")
    page = page_of(*brokers("2.8.2/zkhist"), root / "zookeeper")
    assert "ISRs: from " in page.one("section", id="copies").text


# --- the map --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", DAMAGED)
def test_the_map_covers_every_byte_and_agrees_with_verify(family: str, tmp_path: Path) -> None:
    for number, case in enumerate(recovery_cases([family])[:6]):
        root = case.unpack_before(tmp_path / str(number))
        data = data_of(page_of(root))["map"]
        (checked,) = objects("verify", root)
        sizes = {path.name: path.stat().st_size for path in root.glob("*/*.log")}
        for segment in data["segments"]:
            rows = segment["rows"]
            size = segment["size"]
            assert size == sizes.get(Path(segment["file"]).name, size)
            assert [row[1] for row in rows] == [0, *(row[2] for row in rows[:-1])] if rows else size == 0
            assert not rows or rows[-1][2] == size
        ends = {
            (found["file"], found["position"]): found["code"]
            for found in checked["findings"]
            if found["code"] in ("crc_mismatch", "batch_size_invalid", "torn_tail", "zero_tail")
        }
        drawn = {(segment["file"], row[1]): row[0] for segment in data["segments"] for row in segment["rows"]}
        kinds = {"crc_mismatch": "C", "batch_size_invalid": "C", "torn_tail": "T", "zero_tail": "Z"}
        for end, code in ends.items():
            assert drawn[end] == kinds[code]
        behind = checked["partitions"][0]["sound_batches_behind_damage"] if checked["partitions"] else 0
        if ends and not any(row[0] in "MN" for segment in data["segments"] for row in segment["rows"]):
            after = sum(row[3] for segment in data["segments"] for row in segment["rows"] if row[0] == "A")
            assert after == behind


@EACH
def test_a_batch_with_nonsense_in_it_is_drawn_as_that(each: int, tmp_path: Path) -> None:
    found: set[str] = set()
    for number, case in enumerate(recovery_cases(["not_under_crc", "crc_fixed", "offset_order"])[::each]):
        data = data_of(page_of(case.unpack_before(tmp_path / str(number))))["map"]
        found |= {row[0] for segment in data["segments"] for row in segment["rows"]}
    assert {"S", "A", "C", "M", "N"} <= found


# --- the bytes ------------------------------------------------------------------------------------------------------


def test_the_bytes_are_those_of_the_file_with_the_names_of_the_declaration(flipped: Path) -> None:
    page = page_of(flipped)
    (checked,) = objects("verify", flipped)
    (finding,) = [each for each in checked["findings"] if each["code"] == "crc_mismatch"]
    table = table_named(page.all("details", class_="finding")[0], "Bytes there, read as a batch of format v2")
    data = Path(finding["file"]).read_bytes()
    fields = [row for row in table.rows() if row[2] not in ("before", "after")]
    assert [row[2] for row in fields] == list(BATCH.names)
    for row, field in zip(fields, BATCH.fields, strict=True):
        begin = finding["position"] + field.position
        assert row[0] == str(begin)
        assert bytes.fromhex(row[1]) == data[begin : begin + field.size]
        assert row[3] == str(BATCH.reader(field.name)(data, finding["position"]))
        assert row[4].endswith(field.doc)
    shown = b"".join(bytes.fromhex(row[1]) for row in table.rows())
    begin = int(table.rows()[0][0])
    assert shown == data[begin : begin + len(shown)]


def test_a_timestamp_of_0_has_its_time_and_a_missing_one_has_none(tmp_path: Path) -> None:
    directory = tmp_path / "logs" / "t-0"
    directory.mkdir(parents=True)
    data = bytearray(simple())
    struct.pack_into(">qq", data, BATCH.position("base_timestamp"), 0, -1)
    (directory / f"{0:020}.log").write_bytes(data)
    page = page_of(tmp_path / "logs")
    table = table_named(page.all("details", class_="finding")[0], "Bytes there, read as a batch of format v2")
    meanings = {row[2]: row[4] for row in table.rows()}
    assert meanings["base_timestamp"].startswith("1970-01-01 00:00:00 UTC; ")
    assert "UTC" not in meanings["max_timestamp"]


def test_old_messages_have_their_own_names(tmp_path: Path) -> None:
    case = unpacked("0.8.2.2/codecs")
    root = tmp_path / "logs"
    shutil.copytree(next(case.glob("broker-*")), root)
    log = max(root.glob("*/*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(log.read_bytes())
    data[30] ^= 1
    log.write_bytes(data)
    page = page_of(root, code=1)
    tables = [each for each in page.all("table") if each.one("caption").text.endswith("of format v0")]
    assert [row[2] for row in tables[0].rows()][: len(MESSAGE_V0.names)] == list(MESSAGE_V0.names)


def test_bytes_can_be_left_out(flipped: Path) -> None:
    finished = kafkalog("report", flipped, "-o", "-", "--no-bytes")
    assert "Bytes there" not in finished.out
    assert "crc_mismatch" in finished.out


# --- choosing -------------------------------------------------------------------------------------------------------


def test_partitions_are_chosen() -> None:
    root = unpacked("4.3.0/torn")
    page = page_of(root, "--topic", "ledger-*", "--exclude", "ledger-40-1*")
    names = {row[0] for row in table_named(page, "Partitions").rows()}
    assert names == {f"ledger-40-{number}" for number in (0, *range(2, 10))}
    assert "--topic" in page.one("section", id="ways").all("pre")[0].text
    missing = kafkalog("report", root, "--topic", "ledger-41", "-o", "-")
    assert (missing.code, missing.out) == (1, "")
    assert "did you mean 'ledger-40'?" in missing.err


def test_the_brokers_own_file_names_the_directories(flipped: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={flipped}\nlog.index.interval.bytes=256\n")
    page = page_of("--server-properties", file, code=1)
    assert page.one("dl", class_="facts").all("code")[0].text == str(flipped)
    assert f"--server-properties {file}" in page.one("section", id="ways").all("pre")[0].text


def test_a_partition_directory_and_a_segment_can_be_reported(flipped: Path) -> None:
    page = page_of(flipped / "t-0", code=1)
    assert page.one("section", id="ways").all("pre")[0].text.startswith(f"kafkalog recover {flipped}/t-0")
    segment = max((flipped / "t-0").glob("*.log"))
    page = page_of(segment, code=0)
    assert not page.all("section", id="ways")


def test_what_cannot_be_read_is_said_and_the_rest_is_there(torn: Path) -> None:
    log = min((torn / "t-0").glob("*.log"))
    log.unlink()
    log.symlink_to("elsewhere.log")
    (torn / "t-0" / "elsewhere.log").write_bytes(b"")
    finished = kafkalog("report", torn, "-o", "-")
    assert finished.code == 4
    assert "not everything could be read" in parsed(finished.out).one("div", role="status").text.lower()


# --- where it goes --------------------------------------------------------------------------------------------------


def test_a_file_is_written_whole_and_replaced_only_if_asked(torn: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    first = kafkalog("report", torn, "-o", target)
    assert first.code == 1
    assert first.out.startswith(f"{target}: ")
    parsed(target.read_text())
    target.write_text("mine")
    again = kafkalog("report", torn, "-o", target)
    assert (again.code, target.read_text()) == (64, "mine")
    assert again.err == f"kafkalog: {target} exists: name another file, or add --overwrite\n"
    assert kafkalog("report", torn, "-o", target, "--overwrite").code == 1
    parsed(target.read_text())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "report.html"]


def test_the_name_chooses_the_format_unless_it_is_given(torn: Path, tmp_path: Path) -> None:
    kafkalog("report", torn, "-o", tmp_path / "a.md")
    assert (tmp_path / "a.md").read_text().startswith("## Kafka log report: ")
    kafkalog("report", torn, "-o", tmp_path / "b.md", "--format", "html")
    assert (tmp_path / "b.md").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("name", ["report.html", "t-0/report.html", "t-0/../report.html"])
def test_a_report_does_not_go_into_what_is_examined(torn: Path, name: str) -> None:
    before = stamps(torn)
    finished = kafkalog("report", torn, "-o", torn / name)
    assert finished.code == 64
    assert "is being examined: choose another place" in finished.err
    assert stamps(torn) == before


def test_nor_does_it_through_a_link_or_into_another_log_directory(torn: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(torn / "t-0")
    assert kafkalog("report", torn, "-o", tmp_path / "link" / "r.html").code == 64
    other = recovery_cases(["torn_tail"])[1].unpack_before(tmp_path / "other")
    assert kafkalog("report", torn, "-o", other / "r.html").code == 64
    (tmp_path / "out.html").symlink_to(torn / "r.html")
    assert kafkalog("report", torn, "-o", tmp_path / "out.html", "--overwrite").code == 64
    assert not (torn / "r.html").exists()


def test_no_file_beside_the_report_is_touched(torn: Path, tmp_path: Path) -> None:
    segment = torn / "t-0" / "00000000000000000000.log"
    before = segment.read_bytes()
    beside = tmp_path / f"out.html.{os.getpid()}.tmp"
    os.link(segment, beside)
    assert kafkalog("report", torn, "-o", tmp_path / "out.html").code == 1
    assert beside.read_bytes() == segment.read_bytes() == before
    parsed((tmp_path / "out.html").read_text())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "out.html", beside.name]


@pytest.mark.parametrize("has_links", [True, False])
def test_what_came_to_be_meanwhile_is_not_replaced(
    torn: Path, tmp_path: Path, has_links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr("kafkalog.log.disk.fs.os.link", refused)
    target = tmp_path / "out.html"
    place(str(target), "a report", overwrite=False)
    with pytest.raises(UsageError, match="was created by another process meanwhile"):
        place(str(target), "another", overwrite=False)
    assert target.read_text() == "a report"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "out.html"]


def test_only_a_regular_file_is_replaced(torn: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "fifo")
    for target in (tmp_path / "fifo", tmp_path / "link", Path(os.devnull)):
        finished = kafkalog("report", torn, "-o", target, "--overwrite")
        assert finished.code == 64
        assert finished.err == f"kafkalog: {target} is not a regular file, and only a regular file can be replaced\n"
    assert (tmp_path / "fifo").is_fifo()


@pytest.mark.parametrize(
    ("target", "sentence"),
    [("nowhere/r.html", "nowhere is not a directory"), (".", ". is a directory: name a file in it"),
     ("", "the report needs the name of a file")],
)
def test_a_place_that_cannot_be_is_a_mistake(
    torn: Path, target: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(torn.parent)
    finished = kafkalog("report", torn, "-o", target)
    assert finished.code == 64
    assert finished.err == f"kafkalog: {sentence}\n"


def test_a_place_has_to_be_named(torn: Path) -> None:
    finished = kafkalog("report", torn)
    assert finished.code == 64
    assert "'-o'" in finished.err


def test_it_needs_nothing_but_the_core(torn: Path) -> None:
    """No numpy, also if there is enough to read for columns to be worth it."""
    log = max((torn / "t-0").glob("*.log"))
    base, one = int(log.stem), simple(50, 0)
    log.write_bytes(b"".join(struct.pack(">q", base + 50 * number) + one[8:] for number in range(8000)))
    assert log.stat().st_size > 9 << 20
    program = (
        "import sys; sys.modules.update(dict.fromkeys(['numpy', 'pyarrow', 'pyspark']));"
        "from kafkalog.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program, "report", str(torn), "-o", "-", "--shallow"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(library.__file__).parents[1])}, check=False,
    )  # fmt: skip
    assert finished.stderr == ""
    page = parsed(finished.stdout)
    with_columns = page_of(torn, "--shallow")
    for caption in ("Partitions", "Topics by size", "Appends"):
        assert table_named(page, caption).rows() == table_named(with_columns, caption).rows()
    assert data_of(page) == data_of(with_columns)


# --- for a channel --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["4.1.1/txn", "4.3.0/torn", "2.8.2/zkhist"])
def test_markdown_fits_a_channel(case: str) -> None:
    finished = kafkalog("report", unpacked(case), "-o", "-", "--format", "md")
    assert len(finished.lines) <= 80
    assert finished.lines[0].startswith("## Kafka log report: ")
    assert f"Exit code {finished.code}:" in finished.out
    assert finished.out.count("<details>") == finished.out.count("</details>")
    assert finished.out.count("```") % 2 == 0


# --- from Python ----------------------------------------------------------------------------------------------------


def test_the_function_gives_the_same(flipped: Path) -> None:
    made = library.report(flipped)
    assert made.verdict.code == 1
    assert next(each.code for each in made.findings if each.position is not None) is FindingCode.CRC_MISMATCH
    page = parsed(made.html())
    assert page.one("div", role="status").text == page_of(flipped).one("div", role="status").text
    assert made.markdown().startswith("## Kafka log report: damaged\n")
    assert library.report(flipped, deep=False, show_bytes=False).verdict.code == 1


def test_every_code_has_advice() -> None:
    from kafkalog.codec.common.finding_codes import advice_for

    assert all(advice_for(code) for code in FindingCode)
    general = advice_for(FindingCode.ZK_GAP)
    own = [code for code in FindingCode if advice_for(code) != general]
    assert set(own) >= set(list(FindingCode)[: list(FindingCode).index(FindingCode.RECORD_TYPE_UNKNOWN)])


def test_the_top_says_whose_it_is_and_what_is_lost_and_when(tmp_path: Path) -> None:
    """A batch in the middle of a log: the times are those of the batches around it."""
    root = own_copy(brokers("4.3.0/segments")[0], tmp_path / "data")
    (root / ".kafka_cleanshutdown").unlink()
    log = min((root / "sensors-0-0").glob("*.log"))
    batches = list(library.open_segment(log).batches())
    hurt, before, after = batches[1], batches[0], batches[2]
    data = bytearray(log.read_bytes())
    data[hurt.position + 70] ^= 3
    data[hurt.position + 80] ^= 5
    log.write_bytes(data)
    text = kafkalog("report", root, "-o", "-", "--format", "md").out
    summary = text[: text.index("### What to do")]
    meta = dict(line.split("=", 1) for line in (root / "meta.properties").read_text().splitlines() if "=" in line)
    assert f"broker {meta['node.id']} of cluster" in summary
    assert "Affected: sensors\\-0\\-0" in summary
    first, last = hurt.header.first_offset, hurt.header.last_offset
    assert (f"offsets {first} to {last}" if first != last else f"offset {first}") in summary
    moments = [moment_text(each) for each in (before.header.max_timestamp, after.header.first_timestamp)]
    assert f"between {moments[0]} and {moments[1]}" in summary.replace("\\", "")
    assert text.index("### What to do") < text.index("### Damage")


def test_a_directory_beside_a_copy_of_itself_is_no_duplicate(tmp_path: Path) -> None:
    source = brokers("4.3.0/segments")[0]
    before, after = own_copy(source, tmp_path / "before"), own_copy(source, tmp_path / "after")
    finished = kafkalog("report", before, after, "-o", "-", "--format", "md")
    assert "duplicate_partition" not in finished.out
    assert "identity_mismatch" not in finished.out
    assert finished.code == 0


def test_what_is_missing_is_in_no_count_and_said_at_the_top(tmp_path: Path) -> None:
    root, gone = own_copy(brokers("4.3.0/segments")[0], tmp_path / "data"), tmp_path / "gone"
    finished = kafkalog("report", root, gone, "-o", "-", "--format", "md")
    assert finished.code == 1
    assert "Not counted: what is missing or cannot be read" in finished.out[: finished.out.index("### ")]
    assert "log_directory_missing" in finished.out
