"""axe-core looks at every state of the page, in both colour schemes and on a phone."""

import pytest

pytestmark = pytest.mark.slow

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


def violations(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-core")
    found = axe.Axe().run(page).response
    assert len(found["passes"]) > 10  # it did look
    return [
        (item["id"], item["help"], [node["html"][:200] for node in item["nodes"]][:3])
        for item in found["violations"]
    ]


@pytest.mark.parametrize(
    "settings",
    [{"color_scheme": "light"}, {"color_scheme": "dark"}, PHONE],
    ids=["light", "dark", "phone"],
)
def test_axe_finds_no_violation(open_page, served, settings):
    page = open_page(served.link, reduced_motion="reduce", **settings)
    page.wait_for_selector(".tile")
    page.wait_for_timeout(200)
    assert violations(page) == []
    page.fill("#words", "a green ring, zeppelin")
    page.wait_for_selector("#notice:not([hidden])")
    page.locator("#scores").click()
    assert violations(page) == []
    page.locator(".tile .open").first.click()
    page.wait_for_selector("#viewer[open]")
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.locator("[data-filter=after]").click()
    page.wait_for_selector("#popover[open]")
    assert violations(page) == []
    page.keyboard.press("Escape")
    for words in ("the of the of", "zeppelin", "in:nowhere"):
        page.fill("#words", words)
        page.wait_for_selector("#empty:not(.tail):not([hidden])")
        page.wait_for_function("() => document.querySelectorAll('.tile').length === 0")
        assert violations(page) == []


def test_those_who_prefer_stillness_see_nothing_move(open_page, served):
    page = open_page(served.link, reduced_motion="reduce")
    page.wait_for_selector(".tile")
    durations = page.eval_on_selector_all(
        "*", "all => [...new Set(all.map(one => getComputedStyle(one).transitionDuration))]"
    )
    assert durations == ["0s"]
