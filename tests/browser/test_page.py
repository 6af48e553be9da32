"""The page as a user meets it."""

import base64
import re

import pytest

from tests.browser.conftest import PATIENCE
from tests.browser.test_accessibility import violations
from tests.pictures import HEIC
from tests.serving import NUM_PHOTOS, Served

pytestmark = pytest.mark.slow

CROSSING = "a red circle above a blue square"
PLENTY = "a green star under a small striped orange triangle, and a yellow ring"


def keys(page):
    return page.eval_on_selector_all(".tile", "tiles => tiles.map(tile => tile.dataset.key)")


def settled(page, status):
    """Wait until the status line says so."""
    from playwright.sync_api import expect

    expect(page.locator("#status")).to_have_text(re.compile(status), timeout=PATIENCE)


def shows(page, expected):
    """Wait until these photos are there, in this order."""
    page.wait_for_function(
        """keys => JSON.stringify(Array.from(document.querySelectorAll(".tile"), tile => tile.dataset.key))
            === JSON.stringify(keys)""",
        arg=expected,
    )


def found(collection, *args, **kwargs):
    return [hit.key for hit in collection.search(*args, **kwargs)]


def drop(page, file):
    data = base64.b64encode(file.read_bytes()).decode()
    page.evaluate(
        """([data, name]) => {
            const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
            const transfer = new DataTransfer();
            transfer.items.add(new File([bytes], name, { type: "image/jpeg" }));
            for (const kind of ["dragenter", "dragover", "drop"])
                document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true }));
        }""",
        [data, file.name],
    )


def test_typing_shows_what_is_found(page, collection):
    settled(page, f"{NUM_PHOTOS} photos, newest first")
    page.locator("#words").press_sequentially(CROSSING, delay=20)
    expected = found(collection, CROSSING, k=60)
    settled(page, f"^{len(expected)} photos?, best first")
    shows(page, expected)
    assert page.title() == CROSSING
    page.wait_for_function("() => Array.from(document.images).every(image => image.complete)")
    widths = page.eval_on_selector_all(".tile img", "all => all.map(image => image.naturalWidth)")
    assert len(widths) == len(expected)
    assert min(widths) > 0


def test_an_answer_that_comes_late_is_dropped(page, collection):
    page.route(
        "**/api/search?q=blue&*", lambda route: page.wait_for_timeout(700) or route.continue_()
    )
    page.fill("#words", "blue")
    page.wait_for_timeout(300)  # it is on its way
    page.fill("#words", CROSSING)
    settled(page, "best first")
    expected = found(collection, CROSSING, k=60)
    page.wait_for_timeout(1200)
    assert keys(page) == expected


def test_scrolling_loads_all_of_them_and_nothing_jumps(page):
    first = page.locator(".tile").first.bounding_box()
    while len(before := keys(page)) < NUM_PHOTOS:
        page.mouse.wheel(0, 3000)
        page.wait_for_function(
            "n => document.querySelectorAll('.tile').length > n", arg=len(before)
        )
    assert len(set(keys(page))) == NUM_PHOTOS
    page.evaluate("scrollTo(0, 0)")
    assert page.locator(".tile").first.bounding_box() == first
    rows = page.eval_on_selector_all(
        ".tile",
        "tiles => tiles.map(tile => tile.getBoundingClientRect()).map(b => [b.top, b.height])",
    )
    heights = {}
    for top, height in rows[:-8]:  # the last row is not stretched
        heights.setdefault(round(top), []).append(height)
    assert len(heights) > 10
    assert all(max(row) - min(row) < 1 for row in heights.values())


def test_more_like_this_and_back(page, collection):
    page.fill("#words", PLENTY)
    settled(page, "best first")
    before = keys(page)
    page.locator(".tile").first.hover()
    page.locator(".tile .like").first.click()
    page.wait_for_selector("#sought:not([hidden])")
    expected = found(collection, PLENTY, like=before[0], k=60)
    shows(page, expected)
    page.click("#clear")
    page.wait_for_function("() => location.search === ''")
    page.go_back()
    page.go_back()
    settled(page, "best first")
    assert page.input_value("#words") == PLENTY
    shows(page, before)


def test_a_dropped_photo_finds_itself_and_takes_words(page, photos, collection):
    file = sorted((photos / "2020").iterdir())[3]
    drop(page, file)
    page.wait_for_selector("#sought:not([hidden])")
    settled(page, "best first")
    shows(page, found(collection, image=file, k=60))
    assert (
        page.locator(".tile .open")
        .first.get_attribute("aria-label")
        .startswith(f"Open {file.name}")
    )
    assert page.locator("#drop").is_hidden()
    page.fill("#words", PLENTY)
    page.wait_for_url("**q=a+green+star**")
    expected = found(collection, PLENTY, image=file, k=60)
    settled(page, f"^{len(expected)} photos?, best first" if expected else "Nothing found")
    shows(page, expected)
    page.reload()  # the photo was kept in the page alone
    settled(page, ".")
    assert page.locator("#sought").is_hidden()
    assert page.input_value("#words") == PLENTY


def test_a_photo_is_chosen_or_pasted_and_no_picture_is_refused(page, photos, tmp_path):
    file = sorted((photos / "2020").iterdir())[0]
    page.set_input_files("#file", str(file))
    page.wait_for_selector("#sought:not([hidden])")
    page.click("#sought-remove")
    page.wait_for_selector("#sought", state="hidden")
    letter = tmp_path / "letter.txt"
    letter.write_text("no picture")
    page.set_input_files("#file", str(letter))
    page.wait_for_selector("text=letter.txt is not a picture.")
    data = base64.b64encode(file.read_bytes()).decode()
    page.evaluate(
        """(data) => {
            const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
            const clipboardData = new DataTransfer();
            clipboardData.items.add(new File([bytes], "pasted.jpg", { type: "image/jpeg" }));
            document.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
        }""",
        data,
    )
    page.wait_for_selector("#sought:not([hidden])")


def test_a_photo_that_the_browser_cannot_show_is_looked_for(page):
    page.set_input_files("#file", str(HEIC))
    page.wait_for_selector("#sought:not([hidden])")
    settled(page, "best first|Nothing found")
    assert page.locator("#sought-picture").is_hidden()
    page.click("#sought-remove")


def test_why_a_file_was_refused_stays_when_an_answer_comes(page, tmp_path):
    on_their_way = []
    page.route("**/api/search?q=blue&*", lambda route: on_their_way.append(route))
    page.fill("#words", "blue")
    while not on_their_way:
        page.wait_for_timeout(20)
    letter = tmp_path / "letter.txt"
    letter.write_text("no picture")
    page.set_input_files("#file", str(letter))
    page.wait_for_selector("text=letter.txt is not a picture.")
    on_their_way[0].continue_()
    settled(page, "best first|Nothing found")
    assert page.is_visible("text=letter.txt is not a picture.")
    page.fill("#words", CROSSING)  # something else
    page.wait_for_selector("text=letter.txt is not a picture.", state="hidden")


def test_nothing_found_is_explained_and_the_nearest_are_one_click_away(page):
    page.fill("#words", "the of the of")
    page.wait_for_selector("text=Nothing fits well enough")
    settled(page, "Nothing found")
    assert keys(page) == []
    assert page.locator("#empty").inner_text().count("by chance") == 1
    page.click("text=Show the nearest anyway")
    page.wait_for_selector(".tile")
    assert len(keys(page)) >= 60
    page.fill("#words", "the of the of the")  # another question has its cut-off again
    page.wait_for_selector("text=Nothing fits well enough")


def test_unknown_words_are_named(page):
    page.fill("#words", "zeppelin")
    page.wait_for_selector("text=It does not know “zeppelin”")
    page.click("#empty >> text=star")
    page.wait_for_selector("text=It does not know", state="hidden")
    assert page.input_value("#words") == "star"
    page.fill("#words", "a red zeppelin")
    page.wait_for_selector("#notice >> text=“zeppelin”")
    page.fill("#words", "red circles")
    page.wait_for_selector("#notice >> text=Taking “circles” for “circle”.")


def test_filters_are_chips_and_text_at_once(page):
    page.click("text=Folder")
    page.click("#popover >> text=my photos")
    assert page.input_value("#words") == 'in:"my photos"'
    settled(page, f"{NUM_PHOTOS // 3} photos")
    page.fill("#words", 'in:"my photos" after:2019-07')
    chip = page.get_by_role("button", name="Remove the filter: After 2019-07")
    chip.wait_for()
    page.get_by_role("button", name="Remove the filter: Folder my photos").click()
    assert page.input_value("#words") == "after:2019-07"
    chip.click()
    assert page.input_value("#words") == ""
    page.click("[data-filter=before]")
    page.fill("#popover input", "2019-05-08")
    page.click("#popover >> text=Filter")
    assert page.input_value("#words") == "before:2019-05-08"
    settled(page, "^7 photos")


def test_a_half_written_date_is_explained_and_the_photos_stay(page):
    before = keys(page)
    page.fill("#words", "red after:2o2o")
    page.wait_for_selector("text='2o2o' is not a date")
    assert keys(page)[: len(before)] == before  # the next ones may have come meanwhile


def test_scores_are_shown_on_request_and_remembered(page):
    page.fill("#words", PLENTY)
    settled(page, "best first")
    score = page.locator(".tile .score").first
    assert score.is_hidden()
    page.click("text=Scores")
    assert re.fullmatch(r"0\.\d{3}", score.inner_text())
    page.reload()
    page.wait_for_selector(".tile .score")
    assert page.locator("#scores").get_attribute("aria-pressed") == "true"


def test_the_keyboard_does_it_all(page, collection):
    page.keyboard.press("/")
    page.keyboard.type(PLENTY)
    page.keyboard.press("Enter")
    page.wait_for_function(
        "key => document.querySelector('.tile')?.dataset.key === key",
        arg=found(collection, PLENTY, k=1)[0],
    )
    page.keyboard.press("ArrowDown")
    focused = "document.activeElement.closest('.tile')?.dataset.key"
    order = keys(page)
    assert page.evaluate(focused) == order[0]
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) == order[1]
    page.keyboard.press("Enter")
    viewer = page.locator("#viewer")
    viewer.wait_for()
    assert page.locator("#viewer-previous").is_enabled()
    name = page.locator("#viewer-name")
    second = name.inner_text()
    page.keyboard.press("ArrowLeft")
    assert name.inner_text() != second
    assert page.locator("#viewer-previous").is_disabled()
    page.keyboard.press("ArrowRight")
    assert name.inner_text() == second
    page.keyboard.press("Escape")
    viewer.wait_for(state="hidden")
    assert page.evaluate(focused) == order[1]
    assert page.input_value("#words") == PLENTY


def test_the_focus_stays_where_one_can_go_on(page, collection):
    like = {key: found(collection, like=key, k=60) for key in keys(page)[:40]}
    focused = "document.activeElement.closest('.tile')?.dataset.key ?? document.activeElement.id"
    with_hits = next(key for key, hits in like.items() if hits)
    without = next(key for key, hits in like.items() if not hits)
    for key, status, place in (
        (with_hits, "best first", like[with_hits][0]),
        (without, "Nothing found", "words"),
    ):
        page.locator(f".tile[data-key='{key}'] .like").focus()
        page.keyboard.press("Enter")
        settled(page, status)
        assert page.evaluate(focused) == place
        page.go_back()
        settled(page, "newest first")


def test_arrows_move_between_rows(page):
    page.locator(".tile .open").nth(2).focus()
    box = page.locator(".tile").nth(2).bounding_box()
    page.keyboard.press("ArrowDown")
    below = page.evaluate("document.activeElement.getBoundingClientRect().toJSON()")
    assert below["top"] > box["y"] + box["height"] / 2
    assert below["left"] < box["x"] + box["width"]
    assert below["right"] > box["x"]
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") < below["top"]


def test_the_viewer_closes_with_the_back_button_and_leads_on(page):
    page.fill("#words", PLENTY)
    settled(page, "best first")
    page.locator(".tile .open").first.click()
    page.locator("#viewer").wait_for()
    page.go_back()
    page.locator("#viewer").wait_for(state="hidden")
    assert page.input_value("#words") == PLENTY
    page.locator(".tile .open").first.click()
    page.click("#viewer-folder")
    page.locator("#viewer").wait_for(state="hidden")
    assert re.fullmatch(f"{PLENTY} in:.+", page.input_value("#words"))
    page.wait_for_selector(".tile")
    page.locator(".tile .open").first.click()
    page.click("#viewer-like")
    page.wait_for_selector("#sought:not([hidden])")
    page.go_back()
    page.wait_for_selector("#sought", state="hidden")


def test_an_address_can_be_shared(open_page, served, collection):
    page = open_page(f"{served.link}&q=green+star&nearest=1")
    page.wait_for_selector(".tile")
    assert page.input_value("#words") == "green star"
    assert keys(page)[:60] == found(collection, "green star", k=60, min_score=-9)


def test_the_service_goes_and_comes_back(open_page, collection):
    served = Served(collection)
    try:
        page = open_page(served.url)
        page.wait_for_selector(".tile")
        served.stop()
        page.fill("#words", CROSSING)
        page.wait_for_selector("text=The service does not answer")
        served.start()
        page.wait_for_selector("#gone", state="hidden")
        settled(page, "best first")
        shows(page, found(collection, CROSSING, k=60))
    finally:
        served.stop()


def test_the_token_is_given_once_and_the_cookie_stays(open_page, served):
    page = open_page(served.link)
    page.wait_for_selector(".tile")
    assert page.url == served.url
    page.reload()
    page.wait_for_selector(".tile")
    again = page.context.new_page()
    again.goto(f"{served.url}?q=a+red+circle")
    again.wait_for_selector(".tile")
    assert not again.is_visible("text=This collection is private")


def test_another_sites_form_cannot_send_a_photo(open_page, served, collection, photos):
    """To a service with a token whose cookie the browser has, and to one without a token."""
    data = base64.b64encode(sorted((photos / "2020").iterdir())[0].read_bytes()).decode()
    unguarded = Served(collection)
    try:
        for address, start in ((served.url, served.link), (unguarded.url, unguarded.url)):
            page = open_page(start)
            page.wait_for_selector(".tile")
            page.route(
                "http://evil.example/**",
                lambda route: route.fulfill(content_type="text/html", body="<!doctype html>"),
            )
            page.goto("http://evil.example/")
            with page.expect_navigation():
                page.evaluate(SEND_A_FORM, [data, f"{address}api/search"])
            assert page.url == f"{address}api/search"
            assert "Requests from other sites are refused." in page.content()
    finally:
        unguarded.stop()


SEND_A_FORM = """([data, address]) => {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], "b.jpg", { type: "image/jpeg" }));
    const form = document.createElement("form");
    Object.assign(form, { method: "post", enctype: "multipart/form-data", action: address });
    const input = document.createElement("input");
    Object.assign(input, { type: "file", name: "photo" });
    input.files = transfer.files;
    form.append(input);
    document.body.append(form);
    form.submit();
}"""


def test_a_private_collection_asks_for_its_token(open_page, collection):
    served = Served(collection, token="open sesame please")
    try:
        page = open_page(f"{served.url}?q=a+red+circle")
        page.wait_for_selector("text=This collection is private")
        assert not page.is_visible("text=That is not its token")
        page.keyboard.type("a wrong guess")  # the field has the focus
        page.keyboard.press("Enter")
        page.wait_for_selector("text=That is not its token")
        assert violations(page) == []
        page.keyboard.type("open sesame please")
        page.keyboard.press("Enter")
        page.wait_for_selector(".tile")
        assert page.url == f"{served.url}?q=a+red+circle"
        assert page.input_value("#words") == "a red circle"
    finally:
        served.stop()


def test_a_phone_shows_it_all_without_scrolling_sideways(open_page, served, chromium):
    phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    page = open_page(served.link, **phone)
    page.wait_for_selector(".tile")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    tops = page.eval_on_selector_all(
        ".tile", "all => all.map(tile => tile.getBoundingClientRect().top)"
    )
    assert tops.count(tops[0]) >= 2
    page.fill("#words", PLENTY)
    settled(page, "best first")
    page.locator(".tile .open").first.tap()
    page.locator("#viewer").wait_for()
    assert page.evaluate("document.querySelector('#viewer').scrollWidth") == 360
    page.locator("#viewer-close").tap()
    page.locator(".tile .like").first.tap()
    page.wait_for_selector("#sought:not([hidden])")


def test_it_follows_the_systems_colours(open_page, served):
    grounds = set()
    for scheme in ("light", "dark"):
        page = open_page(served.link, color_scheme=scheme)
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2
