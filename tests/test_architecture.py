import ast
import os
import subprocess
import sys
from pathlib import Path

import vsepp
from tests.models import SCENES

ROOT = Path(__file__).parents[1]


def test_every_public_name_is_there():
    for name in vsepp.__all__:
        assert getattr(vsepp, name).__name__ == name
    assert sorted(vsepp.__all__, key=str) == sorted(set(vsepp.__all__))
    assert set(vsepp.__all__) <= set(dir(vsepp))


def test_the_typed_names_are_the_public_names():
    source = (ROOT / "vsepp" / "__init__.py").read_text().partition("if TYPE_CHECKING:")[2]
    imports = [line.partition(" import ")[2] for line in source.splitlines() if " import " in line]
    assert {name.strip() for line in imports for name in line.split(",")} == set(vsepp.__all__)


def test_importing_costs_nothing():
    script = "import sys, vsepp; assert not {'torch', 'numpy', 'PIL', 'rich'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_no_file_is_a_drawer_for_everything():
    folders = ("benchmarks", "results", "tests", "vsepp")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 40
    assert not [path for path in files if path.stem in ("utils", "common", "helpers")]


def test_using_a_model_leaves_nothing_at_home(tmp_path):
    script = f"import vsepp; vsepp.load({str(SCENES)!r}).embed_texts(['red'])"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    kept.pop("ORT_DISABLE_TELEMETRY", None)
    home = kept | {"HOME": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=home).returncode == 0
    assert not list(tmp_path.iterdir())


# What is longer, and why; a function is named by its file and its own name.
LONG_FUNCTIONS = {
    "kernels/recurrence.py gru_forward": 49,  # one launch, read beside the plain code
    "kernels/recurrence.py gru_backward": 58,
}


def test_functions_and_files_are_short():
    functions, files = {}, {}
    for path in sorted((ROOT / "vsepp").rglob("*.py")):
        name = path.relative_to(ROOT / "vsepp").as_posix()
        source = path.read_text(encoding="utf-8")
        files[name] = len(source.splitlines())
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min(n.lineno for n in (node, *node.decorator_list))
                lines = (node.end_lineno or first) - first + 1
                functions[f"{name} {node.name}"] = max(
                    lines, functions.get(f"{name} {node.name}", 0)
                )
    assert len(files) > 150 and len(functions) > 1000
    assert not {name: lines for name, lines in files.items() if lines > 300}
    too_long = {
        name: lines for name, lines in functions.items() if lines > LONG_FUNCTIONS.get(name, 40)
    }
    assert not too_long
