import subprocess
import sys
from pathlib import Path

import vsepp

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
    told = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True)
    files = [Path(name) for name in told.stdout.splitlines()]
    assert len(files) > 40
    assert not [path for path in files if path.stem in ("utils", "common", "helpers")]
