"""What other packages offer cannot take the place of what is ours."""

import re
from pathlib import Path

import pytest

from vsepp.errors import WrongRequest
from vsepp.plugins import loaded, offered
from vsepp.search.index.exact import ExactIndex
from vsepp.search.registry import open_index

ROOT = Path(__file__).parents[2]


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Packages as pip leaves them: found on the path, before ours."""

    def install(package, entry_points):
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(entry_points)
        monkeypatch.syspath_prepend(tmp_path)

    return install


def test_nobody_takes_the_place_of_ours(install):
    taken = "[vsepp.indexes]\nexact = builtins:print\n[vsepp.stores]\nmilvus = builtins:print\n"
    install("aaa", taken)
    install("zzz", taken)
    assert isinstance(open_index("exact:", 8), ExactIndex)
    assert offered("vsepp.stores")["milvus"].value == "vsepp.engines.milvus_store:MilvusStore"


def test_two_strangers_with_one_name_are_refused(install):
    install("abacus", "[vsepp.indexes]\nbeads = builtins:print\n")
    assert loaded("vsepp.indexes", "beads") is print
    install("rosary", "[vsepp.indexes]\nbeads = builtins:repr\n")
    with pytest.raises(WrongRequest, match="beads is offered by abacus and by rosary"):
        loaded("vsepp.indexes", "beads")


def test_what_is_not_there_is_installed_from_the_checkout(install):
    install("abacus", "[vsepp.indexes]\nbeads = no_such_module:x\n")
    with pytest.raises(WrongRequest, match=r"pip install abacus$"):
        loaded("vsepp.indexes", "beads")


def test_nobody_is_sent_to_a_package_of_our_name():
    """It is on no index: whoever takes the name would run code on our users' machines."""
    texts = [
        path
        for folder in ("vsepp", "docs", "tests", "benchmarks")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".toml", ".js", ".html") and path != Path(__file__)
    ]
    assert len(texts) > 300
    for path in (ROOT / "README.md", *texts):
        wrong = re.search(r"install[^\n]{0,20}[\s\"']vsepp\b", path.read_text(encoding="utf-8"))
        assert wrong is None, f"{path}: {wrong}"
