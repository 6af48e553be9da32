"""Docs that cannot lie: the README's code runs, its tables come from results, its links lead somewhere."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from vsepp.cli import app
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


PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
OF_OTHERS = {"--nproc-per-node", "--nnodes", "--rdzv-backend", "--rdzv-endpoint", "--standalone"}
OF_OTHERS |= {
    "--master-port",
    "--max-restarts",
    "--weights",
    "--words",
    "--no_imgnorm",
}  # torchrun's, our scripts'


def without_fences(text):
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def commands_of(page):
    """Every command line of a page: indented blocks, with their continuation lines, and code spans."""
    text = without_fences((ROOT / page).read_text()).replace("\\\n", " ")
    blocks = re.findall(r"^    (.+)$", text, re.MULTILINE)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]
    lines = [line.partition(" #")[0] for line in (*blocks, *spans)]
    return [line[found.start() :] for line in lines if (found := re.search(r"\bvsepp [a-z]", line))]


def options_of(words):
    """The options of the command that some words call; None where there is no such command."""
    command = typer.main.get_command(app)
    for word in words:
        below = getattr(command, "commands", {})
        if not below:
            break
        command = below.get(word)
        if command is None:
            return None
    names = [name for param in command.params for name in (*param.opts, *param.secondary_opts)]
    return {"--help", *names}


@pytest.mark.parametrize("page", PAGES)
def test_verbs_and_options_of_the_commands_exist(page):
    for command in commands_of(page):
        words = shlex.split(command)[1:]
        options = options_of(words)
        assert options is not None, command
        used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert used <= options, command


def test_enough_commands_are_checked():
    assert sum(len(commands_of(page)) for page in PAGES) > 60


@pytest.mark.parametrize("page", PAGES)
def test_options_that_are_named_alone_exist(page):
    command = typer.main.get_command(app)
    known = set().union(*(options_of([verb]) for verb in command.commands))
    known |= set().union(
        *(options_of(["figures", verb]) for verb in command.commands["figures"].commands)
    )
    spans = re.findall(r"`([^`]+)`", without_fences((ROOT / page).read_text()))
    named = {word for span in spans for word in re.findall(r"(?<![\w-])--[a-z][a-z0-9_-]*", span)}
    assert named <= known | OF_OTHERS, named - known - OF_OTHERS


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


def test_the_map_names_every_package():
    page = (ROOT / "docs" / "architecture.md").read_text()
    packages = {folder.parent.name for folder in (ROOT / "vsepp").glob("*/__init__.py")}
    named = set(re.findall(r"^\| `(\w+)` \|", page, flags=re.M))
    assert packages == named


def test_the_map_leads_to_what_it_names():
    """Each name in a row of "Where to add" is in one of the files that the row links to."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = page.partition("## Where to add")[2].partition("\n## ")[0].splitlines()
    found = 0
    for row in rows:
        files = [(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\((\.\.[^)]*)\)", row)]
        texts = "".join(file.read_text() for file in files if file.is_file())
        prose = re.sub(r"\[[^]]*\]\([^)]*\)", "", row)
        for name in re.findall(r"`([A-Za-z_.]+)`", prose):
            assert name in ("tests/equations", "measurement.py") or all(
                part in texts for part in name.split(".")
            ), f"{name} is in none of {[file.name for file in files]}"
            found += 1
    assert found > 20
