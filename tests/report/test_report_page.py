# SPDX-License-Identifier: Apache-2.0
"""The page: whole, self-contained, true to its data, and safe with any name."""

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_example import HOSTILE, LINKED, example_analysis, example_report, example_timeline

from trainlet.devices import load_device
from trainlet.report import OperatorNote, ReportData, report_html, write_report

VOID = {"meta", "br", "link", "img", "input", "hr"}
FETCHING = {"src", "href", "srcset", "action", "data", "poster", "background", "xlink:href"}


class Page(HTMLParser):
    """Every element and text of a page; elements must close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.words.append(data)

    def of_class(self, name: str) -> list[dict[str, str]]:
        return [a for _, a in self.elements if name in a.get("class", "").split()]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def bare(data: ReportData) -> ReportData:
    """The same report with everything optional left out."""
    return ReportData(
        data.title, data.device, data.scheme, data.model, data.timeline, data.analysis
    )


@pytest.mark.parametrize("reduce", [lambda data: data, bare])
def test_the_page_is_whole_and_refers_to_nothing_outside(reduce):
    html = report_html(reduce(example_report()))
    page = Page(html)
    assert "http" not in html
    assert not re.search(r"@import|url\((?!#)", html)
    for tag, attributes in page.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        assert not FETCHING & attributes.keys()


def test_there_is_one_rectangle_a_bar_at_its_place():
    data = example_report()
    rectangles = Page(report_html(data)).of_class("bar")
    assert len(rectangles) == len(data.timeline.bars)
    for rectangle, bar in zip(rectangles, data.timeline.bars, strict=True):
        assert rectangle["data-value"] == bar.name
    # Heights are in proportion to bytes.
    scales = {
        round(float(rectangle["height"]) / bar.bytes, 2)
        for rectangle, bar in zip(rectangles, data.timeline.bars, strict=True)
        if bar.bytes >= 512
    }
    assert len(scales) == 1


def test_every_role_of_the_example_is_drawn_and_explained():
    page = Page(report_html(example_report()))
    for slug in ("input", "activation", "saved", "mask", "gradient", "scratch"):
        assert any(f"r-{slug}" in bar["class"] for bar in page.of_class("bar")), slug
    assert "saved activation a forward value kept" in page.text


def test_the_figures_are_on_the_page():
    data = example_report()
    text = Page(report_html(data)).text
    for figure in (
        f"{data.analysis.sram_bytes:,}",
        f"{LINKED['sram_bytes']:,} of 327,680 bytes",
        f"{LINKED['bss'] + 400:,}",  # what the emulator saw
        f"{data.timeline.lower_bound_bytes:,}",
        "3,000 instructions, not cycles",
        "10.0 → 75.0 %",
        "+65.0 points",
        "conv2d_grad_input of conv",
        "tiny_conv",
        "A note.",
    ):
        assert figure in text, figure


def test_ids_are_unique_and_labels_find_them():
    page = Page(report_html(example_report()))
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    charts = page.of_class("chart")
    assert len(charts) == 4
    for chart in charts:
        assert chart["role"] == "img"
        assert set(chart["aria-labelledby"].split()) <= set(ids)


def test_same_data_same_bytes(tmp_path: Path):
    for name in ("a.html", "b.html"):
        write_report(tmp_path / name, example_report())
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_hostile_names_stay_text():
    timeline = example_timeline(prefix=HOSTILE)
    data = replace(
        example_report(),
        title=HOSTILE,
        scheme=HOSTILE,
        model=HOSTILE,
        timeline=timeline,
        analysis=replace(example_analysis(timeline), peak_operator=HOSTILE),
        before_after={HOSTILE: (0.0, 1.0)},
        operators=(OperatorNote("0:conv.conv2d", HOSTILE, HOSTILE, False, 1),),
        notes=(HOSTILE,),
    )
    html = report_html(data)
    page = Page(html)
    assert html.count("<script") == 1
    assert html.count("</style>") == 1
    assert any(bar["data-value"] == f"{HOSTILE}grad" for bar in page.of_class("bar"))
    assert page.text.count("alert('x')") > 5


def test_what_does_not_fit_says_so():
    data = example_report()
    large = replace(data.analysis, weight_bytes=400_000)
    text = Page(report_html(replace(data, analysis=large, linked=None))).text
    assert "does not fit" in text
    assert "(too much)" in text


def test_a_device_with_gigabytes_shows_no_free_part():
    text = Page(report_html(replace(example_report(), device=load_device("host")))).text
    assert "free" not in text
    assert "under 0.1 %" in text


def test_an_arena_above_the_bound_is_marked():
    data = example_report()
    timeline = replace(data.timeline, arena_bytes=data.timeline.lower_bound_bytes + 1000)
    page = Page(report_html(replace(data, timeline=timeline)))
    assert "over the lower bound" in page.text
    assert page.of_class("arena")


def test_a_plan_without_operators_has_a_page():
    data = example_report()
    empty = replace(
        data.timeline,
        labels=(),
        bars=(),
        live_bytes=(),
        arena_bytes=0,
        lower_bound_bytes=0,
        peak_instruction=-1,
        peak_op=None,
        at_peak=(),
    )
    assert Page(report_html(replace(data, timeline=empty))).of_class("bar") == []


@pytest.mark.parametrize("losses", [[float("nan")], [float("inf"), 1.0], [0.0, 0.0], [3.0]])
def test_losses_of_any_kind_can_be_drawn(losses):
    html = report_html(replace(example_report(), losses=losses))
    Page(html)
    paths = re.findall(r'<path class="line [^>]*>', html)
    assert len(paths) == 1 + any(
        map(math.isfinite, losses)
    )  # accuracy, and loss where there is any
    assert not any("nan" in path or "inf" in path for path in paths)


@pytest.mark.slow
def test_a_compiled_network_reports_every_value_of_its_step(shared_dir: Path):
    from trainlet.build import build_program
    from trainlet.importers import load_network
    from trainlet.nn import apply_scheme
    from trainlet.scheme import load_scheme

    network = load_network(shared_dir / "models" / "tiny-training" / "mcunet-5fps.pkl", classes=10)
    apply_scheme(network, load_scheme("mcunet-49kb"))
    program = build_program(network, "mcunet")
    device = load_device("stm32f746")
    data = ReportData.of_program(program, title="MCUNet", device=device, scheme="mcunet-49kb")
    named = {bar.name for bar in data.timeline.bars if not bar.is_scratch}
    assert named <= data.roles.keys()
    page = Page(report_html(data))
    assert len(page.of_class("bar")) == len(data.timeline.bars)
    assert [note.name for note in data.operators] == [
        label.removeprefix("compute ")
        for label in data.timeline.labels
        if label.startswith("compute ")
    ]
