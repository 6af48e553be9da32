import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU runs these tests itself")
@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton, which Linux's torch has")
def test_kernels_do_what_they_say_number_by_number():
    """In a process of its own: Triton decides when it is imported whether to compile."""
    files = [str(HERE / f"test_{name}.py") for name in ("crops", "hinges", "rows")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--override-ini=addopts=", "-k", "not real_size", *files],
        cwd=HERE.parents[1],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "33 passed" in done.stdout
