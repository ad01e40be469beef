"""The page: one self-contained file, composed of template, style, script and sections."""

from __future__ import annotations

import base64
import hashlib
import pkgutil
from functools import cache
from string import Template

from kafkalog.codec.common.errors import UsageError
from kafkalog.inspect.facts import ReportFacts
from kafkalog.reporting.markup import data_block, join
from kafkalog.reporting.section_comparison import comparison_section
from kafkalog.reporting.section_damage import damage_section
from kafkalog.reporting.section_header import header_section, index_of_sections
from kafkalog.reporting.section_inventory import inventory_section
from kafkalog.reporting.section_left_out import left_out_section
from kafkalog.reporting.section_map import map_data, map_section
from kafkalog.reporting.section_runs import runs_section
from kafkalog.reporting.section_timeline import timeline_data, timeline_section
from kafkalog.reporting.section_topics import topics_section
from kafkalog.reporting.section_ways import ways_section
from kafkalog.reporting.verdict import verdict_of

__all__ = ["page_of", "stylesheet"]

_TITLE = "Kafka log report"


@cache
def _part(name: str) -> str:
    try:
        data = pkgutil.get_data("kafkalog.reporting", f"page/{name}")
    except OSError:
        data = None
    if data is None:
        raise UsageError(f"this installation of kafkalog lacks page/{name}")
    return data.decode("utf-8")


@cache
def stylesheet() -> str:
    """Style of the page, with dark colors if the reader's system or the reader selects them."""
    return Template(_part("report.css")).substitute(dark=_part("dark.css").strip())


def _digest(text: str) -> str:
    """Hash by which the page's content security policy permits its style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page_of(facts: ReportFacts) -> str:
    """Return the whole report as one HTML page. Reads its template, style and script from the package. Raises
    `UsageError` if this installation is incomplete, or if style or script contains its own end tag. Raises
    `StorageError` if a metadata log that must be read for advice cannot be.
    """
    verdict = verdict_of(facts)
    sections = [
        ways_section(facts),
        damage_section(facts),
        comparison_section(facts),
        map_section(facts),
        timeline_section(facts),
        topics_section(facts),
        inventory_section(facts),
        runs_section(facts),
        left_out_section(facts),
    ]
    style, script = stylesheet(), _part("report.js")
    data = {"map": map_data(facts), "time": timeline_data(facts)}
    page = Template(_part("report.html")).substitute(
        title=join(f"{_TITLE}: {', '.join(facts.paths)}"),
        policy="; ".join(
            [
                "default-src 'none'",
                f"style-src '{_digest(style)}'",
                f"script-src '{_digest(script)}'",
                "img-src data:",
                "base-uri 'none'",
                "form-action 'none'",
            ]
        ),
        style=style,
        script=script,
        header=header_section(facts, verdict),
        index=index_of_sections([section for section in sections if section is not None]),
        sections=join([section.markup for section in sections if section is not None]),
        data=data_block("data", data),
        version=join(facts.version),
    )
    if "</script" in script or "</style" in style:
        raise UsageError("the page's own script or style would end itself")
    return page
