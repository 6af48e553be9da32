"""Docs that cannot lie: the README's code runs, its tables come from results, its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from vsepp.experiments.recipe import Recipe

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_readmes_python_runs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["1", "2", "3"]
    assert all("rsum" in line for line in lines[:3])
    assert lines[3] == "(1, 128)"


def test_the_readmes_tables_are_what_was_measured():
    script = ROOT / "results" / "tables.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("../README", 3),
        ("performance", 8),
        ("scale", 4),
        ("extend", 6),
        ("results", 1),
        ("evaluation", 6),
    ],
)
def test_the_links_of_a_page_lead_somewhere(name, count):
    page = ROOT / "docs" / f"{name}.md"
    links = [link for link in re.findall(r"\]\(([^)]+)\)", page.read_text()) if "://" not in link]
    assert len(links) >= count
    for link in links:
        file, _, heading = link.partition("#")
        there = page.parent / file if file else page
        assert there.exists(), link
        assert not heading or heading in headings(there), link


@pytest.mark.parametrize("page", ["README.md", "docs/reproduce.md", "docs/results.md"])
def test_recipes_and_keys_of_the_commands_exist(page):
    text = (ROOT / page).read_text()
    commands = re.findall(r"vsepp (?:train|reproduce) +([\w.+-]+) ([^`#\n&;]*)", text)
    assert len(commands) >= 3
    for name, rest in commands:
        Recipe.load(name, re.findall(r"--set '?([\w.]+=[^' $]+(?<!=))", rest))


def headings(page):
    """As links write them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", words.lower()).replace(" ", "-") for words in found}


def test_the_readme_names_every_folder():
    folders = [path.name for path in (ROOT / "vsepp").iterdir() if (path / "__init__.py").exists()]
    assert len(folders) >= 7
    assert all(f"`vsepp/{name}`" in README for name in folders)


def test_the_readmes_commands_exist():
    verbs = set(re.findall(r"^    vsepp (\w+)", README, re.MULTILINE))
    assert {
        "data",
        "train",
        "evaluate",
        "embed",
        "precompute",
        "recipes",
        "reproduce",
        "index",
        "serve",
    } == verbs
    help_page = subprocess.run(
        [sys.executable, "-m", "vsepp", "--help"], capture_output=True, text=True, cwd=ROOT
    ).stdout
    assert all(verb in help_page for verb in verbs)
    targets = (ROOT / "Makefile").read_text()
    assert all(
        f"\n{target}:" in targets for target in re.findall(r"^    make (\w+)", README, re.MULTILINE)
    )
