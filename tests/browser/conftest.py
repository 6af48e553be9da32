"""A real browser, headless, on a real service."""

import os
import shutil

import pytest

import vsepp
from tests.models import SCENES
from tests.serving import Served, write_photos

CHROMIUM = (
    os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
)
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage"]
PATIENCE = 60_000  # milliseconds; a busy machine takes its time


@pytest.fixture(scope="session")
def chromium():
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium, or its path in CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="session")
def collection(photos, tmp_path_factory):
    file = tmp_path_factory.mktemp("collection") / "photos.vse"
    with vsepp.Collection.create(file, vsepp.load(SCENES)) as collection:
        collection.add(photos)
        yield collection


@pytest.fixture(scope="session")
def served(collection):
    served = Served(collection, token="only for this browser")
    yield served
    served.stop()


@pytest.fixture
def open_page(chromium):
    """A page at an address; what it complains about on its console fails the test."""
    contexts, complaints = [], []

    def open_page(address, **settings):
        settings = {"viewport": {"width": 1200, "height": 800}, **settings}
        context = chromium.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: said.type == "error" and complaints.append(said.text))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    # A refusal that the page shows to the user is reported by the browser, too.
    own = [said for said in complaints if not said.startswith("Failed to load resource")]
    assert not own


@pytest.fixture
def page(open_page, served):
    page = open_page(served.link)
    page.wait_for_selector(".tile")
    return page
