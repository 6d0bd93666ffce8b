"""The page in a real browser: what people do with it, by pointer and by keyboard, and what they should not do."""

from __future__ import annotations

import csv
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
from browser import running

from gspn import GSPN, Categorical, Schema, from_arrays, from_smiles
from gspn.web.app import create_app
from gspn.web.learning import ATOM_FEATURES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


@pytest.fixture
def tolerant(browser: Browser) -> Iterator[Page]:
    """A page on which the server may refuse something, which browsers write to the console; nothing else may happen."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    fresh = context.new_page()
    complaints: list[str] = []
    fresh.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    fresh.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    fresh.on("console", lambda said: complaints.append(said.text) if _is_strange(said) else None)
    yield fresh
    assert fresh.evaluate("window.pwned") is None
    context.close()
    assert not complaints, complaints


def _is_strange(said: Any) -> bool:
    return said.type in ("error", "warning") and "Failed to load resource" not in said.text


def open_page(page: Page, address: str, smiles: str = ASPIRIN) -> None:
    page.goto(address)
    page.wait_for_selector("#workspace:not([hidden])")
    page.fill("#smiles", smiles)
    page.press("#smiles", "Enter")
    page.wait_for_function("smiles => location.hash.includes(new URLSearchParams({ smiles }))", arg=smiles)


def caption(page: Page) -> str:
    return page.inner_text("#caption-edited")


def replace(page: Page, vertex: int, value: str) -> None:
    before = caption(page)
    page.click(f"#edited [data-vertex='{vertex}']")
    page.click(f".replacement[data-value='{value}']")
    page.wait_for_function("before => document.getElementById('caption-edited').innerText !== before", arg=before)


def test_edit_undo_redo_reload(page: Page, address: str, model: GSPN) -> None:
    hosts = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    page.goto(address)
    page.wait_for_selector("#workspace:not([hidden])")
    page.select_option("#examples", label="Aspirin")
    page.wait_for_function("() => document.querySelectorAll('#edited .vertex').length === 13")
    assert caption(page) == "no edits yet"
    replace(page, 3, '"N"')

    graph = from_smiles([ASPIRIN], features=ATOM_FEATURES, progress=False)[0]
    expected = model.what_if(graph, {3: {"element": "N"}}, leave_one_out=True)
    total = f"{expected.total:+.3f} (".replace("-", "−")
    assert total in caption(page)
    cell = page.locator("#table tr[data-vertex='3'] td").nth(4)
    assert cell.inner_text() == f"{expected.change[3]:+.3f}".replace("-", "−")
    discs = {side: page.locator(f"#{side} .vertex circle:nth-child(2)") for side in ("original", "edited")}
    fills = {side: discs[side].evaluate_all("all => all.map(c => c.getAttribute('fill'))") for side in discs}
    assert len(set(fills["original"])) == 1
    assert len(set(fills["edited"])) > 1
    read = "all => all.map(c => [c.getAttribute('cx'), c.getAttribute('cy')])"
    assert discs["original"].evaluate_all(read) == discs["edited"].evaluate_all(read)

    page.click("#undo")
    page.wait_for_function("() => document.getElementById('caption-edited').innerText === 'no edits yet'")
    page.click("#redo")
    page.wait_for_function("() => document.getElementById('caption-edited').innerText !== 'no edits yet'")
    replace(page, 0, '"F"')
    assert page.locator("#history li").count() == 3
    both = caption(page)
    page.reload()
    page.wait_for_selector("#workspace:not([hidden])")
    assert caption(page) == both
    assert page.input_value("#smiles") == ASPIRIN
    page.click("#history li:nth-child(1) button")
    page.wait_for_function("() => document.getElementById('caption-edited').innerText === 'no edits yet'")
    page.click("#history li:nth-child(2) button")
    page.wait_for_function("() => document.getElementById('caption-edited').innerText !== 'no edits yet'")
    assert total in caption(page)
    assert hosts == {urlsplit(address).netloc}


def test_the_scale_is_locked_until_it_is_fitted_again(page: Page, address: str) -> None:
    open_page(page, address)
    replace(page, 3, '"N"')
    locked = page.get_attribute("#legend svg", "aria-label")
    replace(page, 1, '"K"')  # out of the question
    assert page.get_attribute("#legend svg", "aria-label") == locked
    page.click("#refit")
    assert page.get_attribute("#legend svg", "aria-label") != locked
    page.check("input[value=relative]")
    assert "before" in (page.get_attribute("#legend svg", "aria-label") or "")
    page.check("input[value=likelihood]")
    assert "average" in (page.get_attribute("#legend svg", "aria-label") or "")
    now = caption(page)
    page.check("input[value=pseudo]")
    page.wait_for_function("now => document.getElementById('caption-edited').innerText !== now", arg=now)
    assert "leave_one_out=0" in page.url


def test_replacements_say_what_cannot_be(page: Page, address: str) -> None:
    open_page(page, address)
    page.click("#edited [data-vertex='1']")
    impossible = page.locator(".replacement[data-value='\"F\"']")
    impossible.wait_for(state="attached")
    assert impossible.is_hidden()
    page.focus(".replacement:not(.current)")
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.dataset.value") == "null", "keys pass over what is not shown"
    page.check("#impossible")
    assert impossible.get_attribute("aria-disabled") == "true"
    assert "F cannot have valence 4" in impossible.inner_text()
    assert page.inner_text("#impossible-count") == str(page.locator(".replacement.impossible").count())
    impossible.click(force=True)
    assert caption(page) == "no edits yet"
    replace(page, 1, "null")
    assert ", ?." in (page.get_attribute("#edited [data-vertex='1']", "aria-label") or "")
    page.select_option("#attribute", "aromatic")
    page.wait_for_selector(".replacement[data-value='true']")


def test_what_follows_from_a_replacement_is_said(page: Page, chemist: tuple[GSPN, Any]) -> None:
    with running(create_app(chemist[0])) as address:
        open_page(page, address, "Clc1ccccc1")
        page.click("#edited [data-vertex='0']")
        oxygen = page.locator(".replacement[data-value='\"O\"']")
        assert re.search(r"with .*hydrogens 1, .*changes at \d atoms around", oxygen.inner_text())
        listed = oxygen.locator(".number").inner_text()
        replace(page, 0, '"O"')
        assert caption(page).startswith(f"{listed} (")
        assert re.search(
            r"Recomputed, as it follows from the edits: .*hydrogens.* at \d atoms", page.inner_text("#meaning")
        )


def test_edges_can_be_removed_and_added(page: Page, address: str) -> None:
    open_page(page, address)
    drawn = page.locator("#edited .structure path[class*='bond-']")
    before, original = drawn.count(), page.locator("#original .structure path[class*='bond-']").count()
    page.click("#edited [data-vertex='0']")
    page.click("#bonds summary")
    page.click("#bond-list button")
    page.wait_for_function("() => document.querySelectorAll('#history li').length === 2")
    removed = drawn.count()
    assert removed < before == original
    page.select_option("#bond-to", label="O12")
    page.click("#bond-form button")
    page.wait_for_function("() => document.querySelectorAll('#history li').length === 3")
    added = drawn.count()
    assert added > removed
    page.reload()
    page.wait_for_function("() => document.querySelectorAll('#history li').length === 3")
    assert drawn.count() == added
    assert page.locator("#original .structure path[class*='bond-']").count() == original, "what it was stays beside it"


def test_table_and_drawing_are_linked(page: Page, address: str) -> None:
    open_page(page, address)
    page.hover("#table tr[data-vertex='4']")
    assert "pointed" in (page.get_attribute("#edited [data-vertex='4']", "class") or "")
    page.hover("#edited [data-vertex='2']")
    assert "pointed" in (page.get_attribute("#table tr[data-vertex='2']", "class") or "")
    page.wait_for_selector("#card .bars li")
    assert "O2" in page.inner_text("#card")
    assert re.search(r"−?\d+\.\d{4} → −?\d+\.\d{4}", page.inner_text("#card"))
    page.click("#table th button[data-column='2']")
    shown = [float(text.replace("−", "-")) for text in page.locator("#table td:nth-child(3)").all_inner_texts()]
    assert shown == sorted(shown, reverse=True)
    page.click("#table th button[data-column='2']")
    assert page.get_attribute("#table th:nth-child(3)", "aria-sort") == "ascending"


def test_saving(page: Page, address: str, tmp_path: Path) -> None:
    open_page(page, address)
    replace(page, 3, '"N"')
    with page.expect_download() as saved:
        page.click("#export-svg")
    assert saved.value.suggested_filename == "what-if.svg"
    saved.value.save_as(tmp_path / "drawing.svg")
    root = ElementTree.parse(tmp_path / "drawing.svg").getroot()
    circles = [one for one in root.iter("{http://www.w3.org/2000/svg}circle") if one.get("fill") != "none"]
    assert len(circles) == 26
    assert "more likely" in "".join(root.itertext())
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 26  # the structure, with numbers of atoms
    assert "script" not in (tmp_path / "drawing.svg").read_text()
    with page.expect_download() as saved:
        page.click("#export-csv")
    saved.value.save_as(tmp_path / "numbers.csv")
    with (tmp_path / "numbers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 13
    assert (rows[3]["element before"], rows[3]["element after"]) == ("O", "N")
    assert float(rows[3]["after"]) - float(rows[3]["before"]) == pytest.approx(float(rows[3]["change"]), abs=1e-4)


def test_atoms_have_one_number_everywhere(page: Page, address: str) -> None:
    """In the picture, the table, the address, and the commands: from 0, in the order of the SMILES."""
    open_page(page, address, "Clc1ccc(CNC(C)=O)cc1")
    assert page.locator("#table tr[data-vertex='0'] .badge").inner_text() == "Cl0"
    replace(page, 0, '"O"')
    assert "edit=%5B0%2C%22element%22%2C%22O%22%5D" in page.url
    # RDKit draws numbers as shapes of the classes note and atom; the drawing is the same as with its own numbers.
    numbers = (
        page.locator("#edited .structure path.note").count() or page.locator("#edited .structure text.note").count()
    )
    assert numbers >= 12
    assert page.inner_text("#table-heading") == "Atoms"


def test_the_structure_lies_over_its_discs(page: Page, address: str) -> None:
    open_page(page, address, "Clc1ccc(CNC(C)=O)cc1")
    for side in ("original", "edited"):
        box = page.locator(f"#{side} .structure").bounding_box()
        discs = page.locator(f"#{side} .vertex circle:nth-child(2)")
        own = [discs.nth(n).bounding_box() for n in range(discs.count())]
        assert box is not None
        assert all(one is not None for one in own)
        left, right = (find(one["x"] + one["width"] / 2 for one in own if one) for find in (min, max))
        # Bonds end at the centres of the outermost discs; letters reach a little further.
        assert abs(box["x"] - left) < 20
        assert abs(box["x"] + box["width"] - right) < 20
    styled = page.eval_on_selector_all(".structure [style]", "all => all.length")
    assert styled == 0, "the page allows no styles, and saved drawings need their colours"


def test_a_sentence_says_what_the_number_means(page: Page, address: str) -> None:
    open_page(page, address)
    assert "click one to see what it could be" in page.inner_text("#meaning")
    replace(page, 3, '"N"')
    said = page.inner_text("#meaning")
    found = re.search(r"the edited version is ([0-9.,⁰¹²³⁴⁵⁶⁷⁸⁹]+) times (more|less) likely", said)
    assert found
    assert f"{found[1]} times {found[2]} likely" in caption(page)
    change = float(caption(page).partition(" ")[0].replace("−", "-"))
    assert (change > 0) == (found[2] == "more")
    for word in ("nats", "pseudo", "state"):
        assert word not in page.inner_text("body").lower()


def test_keyboard_alone(page: Page, address: str) -> None:
    open_page(page, address)
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.vertex") == "0":
            break
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.vertex") == "1"
    label = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert label.startswith("C1, C.")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.vertex") != "1"
    page.focus("#edited [data-vertex='3']")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.classList.contains('replacement')")
    first = page.evaluate("document.activeElement.dataset.value")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.value") != first
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.getElementById('caption-edited').innerText !== 'no edits yet'")
    page.wait_for_function("() => document.activeElement.dataset.vertex === '3'")
    assert "Total change" in page.inner_text("#live")
    page.keyboard.press("Escape")
    assert page.is_hidden("#inspector-body")
    page.keyboard.press("Control+z")
    page.wait_for_function("() => document.getElementById('caption-edited').innerText === 'no edits yet'")
    page.keyboard.press("Control+Shift+Z")
    page.wait_for_function("() => document.getElementById('caption-edited').innerText !== 'no edits yet'")


@pytest.mark.parametrize("width", [390, 320])
def test_nothing_is_wider_than_a_phone(page: Page, address: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    open_page(page, address)
    page.click("#edited [data-vertex='3']")
    page.wait_for_selector(".replacement")
    page.click("#upload summary")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_tables_are_uploaded(page: Page, address: str) -> None:
    nodes = "id,team,<b>kind</b>\n" + "".join(f"<i>p{i}</i>,{'red' if i % 2 else 'blue'},{i % 3}\n" for i in range(9))
    edges = "source,target\n" + "".join(f"<i>p{i}</i>,<i>p{i + 1}</i>\n" for i in range(8))
    page.goto(address)
    page.wait_for_selector("#workspace:not([hidden])")
    page.click("#upload summary")
    page.set_input_files("#nodes", {"name": "nodes.csv", "mimeType": "text/csv", "buffer": nodes.encode()})
    page.set_input_files("#edges", {"name": "edges.csv", "mimeType": "text/csv", "buffer": edges.encode()})
    page.click("#upload-form button")
    page.wait_for_function("() => location.hash.includes('upload=')", timeout=60_000)
    assert page.locator("#edited .vertex").count() == 9
    assert page.locator("i, b").count() == 0
    page.click("#choice summary")
    assert "too few entries to hold any out" in page.inner_text("#choice-why")
    assert page.locator("#choice-table tbody tr.taken").count() == page.locator("#choice-table tbody tr").count() > 0
    page.click("#edited [data-vertex='1']")
    page.click(".replacement[data-value='\"blue\"']")
    page.wait_for_function("() => document.querySelectorAll('#history li').length === 2")
    page.reload()
    page.wait_for_function("() => document.querySelectorAll('#history li').length === 2")
    assert "<i>p1</i>" in page.inner_text("#history")
    assert page.is_visible("#choice")
    page.fill("#smiles", "CCO")
    page.click("#smiles-form button")
    page.wait_for_function("() => document.querySelectorAll('#edited .vertex').length === 3")
    assert page.is_hidden("#choice")


HOSTILE = {
    "script": ("<script>window.pwned=1</script>", "cannot be read"),
    "image": ("<img src=x onerror='window.pwned=1'>", "cannot be read"),
    "broken": ("C1CC(", "cannot be read"),
    "large": ("C" * 1_500, "Too many atoms"),
    "very large": ("C" * 10_000, "too long: 10,000 characters"),
    "pasted": ("C" * 10_000_000, "too long"),
    "path": ("../../../../etc/passwd", "cannot be read"),
    "unicode": ("\u202eC\U0001f600O\u0301", "plain letters"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_molecules(tolerant: Page, address: str, what: str) -> None:
    smiles, message = HOSTILE[what]
    tolerant.goto(address)
    tolerant.wait_for_selector("#workspace:not([hidden])")
    # As a paste does; typing ten million letters would take the test's time.
    tolerant.evaluate("text => { document.getElementById('smiles').value = text; }", smiles)
    tolerant.click("#smiles-form button")
    tolerant.wait_for_selector("#message:not([hidden])")
    assert message in tolerant.inner_text("#message")
    tolerant.evaluate("document.getElementById('smiles').value = 'CCO'")
    tolerant.click("#smiles-form button")
    tolerant.wait_for_selector("#message", state="hidden")
    assert tolerant.locator("#edited .vertex").count() == 3


@pytest.mark.parametrize(
    ("hash", "message"),
    [
        ("smiles=CCO&edit=<script>window.pwned=1</script>", "cannot be read"),
        ('smiles=CCO&edit=[0,"<img src=x onerror=window.pwned=1>","O"]', "No attribute"),
        ('smiles=CCO&edit=[0,"element","<svg onload=window.pwned=1>"]', "none of the categories"),
        ('smiles=CCO&edit=[99,"element","O"]', "does not exist"),
        ('smiles=CCO&edit={"__proto__":{"pwned":1}}', "cannot be read"),
        ("smiles=javascript:window.pwned=1", "cannot be read"),
        ("upload=../../etc/passwd&graph=1e9", "not here"),
        ("upload=%00&graph=-5", "not here"),
    ],
)
def test_hostile_addresses(tolerant: Page, address: str, hash: str, message: str) -> None:
    tolerant.goto(f"{address}#{hash}")
    tolerant.wait_for_selector("#message:not([hidden])")
    assert message in tolerant.inner_text("#message")
    assert tolerant.locator("script:not([src]), #message *").count() == 0


def test_hostile_tables(tolerant: Page, address: str) -> None:
    tolerant.goto(address)
    tolerant.wait_for_selector("#workspace:not([hidden])")
    tolerant.click("#upload summary")
    nodes = b"id,kind\n<script>window.pwned=1</script>,a\n<script>window.pwned=1</script>,b\n"
    tolerant.set_input_files("#nodes", {"name": "<img src=x>.csv", "mimeType": "text/html", "buffer": nodes})
    tolerant.click("#upload-form button")
    tolerant.wait_for_selector("#message:not([hidden])")
    assert "occurs already" in tolerant.inner_text("#message")
    large = b"id,x\n" + b"1,1\n" * 1_200_000
    tolerant.set_input_files("#nodes", {"name": "nodes.csv", "mimeType": "text/csv", "buffer": large})
    tolerant.click("#upload-form button")
    tolerant.wait_for_function("() => document.getElementById('message').innerText.includes('too large')")


def test_hundreds_of_vertices_can_be_told_apart(page: Page) -> None:
    """Dots that are seen and met by the pointer, and stay apart."""
    side, schema = 18, Schema([Categorical("team", ["a", "b"])])
    numbers = [(row, column) for row in range(side) for column in range(side)]
    nodes = "id,team\n" + "".join(f"v{n},{'ab'[row > 8]}\n" for n, (row, _) in enumerate(numbers))
    pairs = [(n, n + 1) for n, (_, column) in enumerate(numbers) if column + 1 < side]
    pairs += [(n, n + side) for n, (row, _) in enumerate(numbers) if row + 1 < side]
    edges = "source,target\n" + "".join(f"v{u},v{v}\n" for u, v in pairs)
    graph = from_arrays(torch.zeros(4, 1), torch.tensor([[0, 1], [1, 0]]), schema=schema)
    model = GSPN(schema, num_layers=2, num_states=2, objective="masked", epochs=1).fit(graph, progress=False)
    app = create_app(model, greeting=(nodes.encode(), edges.encode()))
    with running(app) as address:
        page.goto(address)
        page.wait_for_function("() => document.querySelectorAll('#edited .vertex').length === 324")
        boxes = page.eval_on_selector_all(
            "#edited .vertex circle:nth-child(2)",
            "all => all.map(one => { const box = one.getBoundingClientRect(); return [box.x + box.width / 2, "
            "box.y + box.height / 2, box.width]; })",
        )
    assert min(width for _, _, width in boxes) > 6
    centres = np.array([[x, y] for x, y, _ in boxes])
    nearest = np.sort(np.hypot(*(centres[:, None] - centres).transpose(2, 0, 1)), axis=1)[:, 1]
    assert np.quantile(nearest, 0.05) > 0.8 * boxes[0][2]
