"""Kernels run on a GPU; without one, `test_interpreting.py` has Triton's interpreter run them."""

import os

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
IS_GPU = torch.cuda.is_available()
if not IS_GPU and not INTERPRETED:
    collect_ignore = ["test_crops.py", "test_hinges.py", "test_rows.py"]


@pytest.fixture
def device():
    return torch.device("cuda" if IS_GPU else "cpu")
