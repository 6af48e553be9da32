"""What several tests start from: a picture folder, and a model trained for a few seconds."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings

from tests.milvus import MilvusServer
from vsepp.data.collections import open_data
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.run import run

# The same examples everywhere, and no deadline: machines are shared and noisy. New examples:
# pytest --hypothesis-profile=explore
settings.register_profile("same everywhere", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("same everywhere")
SEED = int(os.environ.get("VSEPP_TEST_SEED", "0"))

# In the names of tests that take long to prepare.
SHARING = "milvus", "test_ray", "test_distributed", "test_cli"
SHARED = Path(__file__).parents[2] / "shared"
TINY = (
    "batch_size=32",
    "model.dim=32",
    "model.word_dim=16",
    "phases.1.epochs=0",
    "phases.2.epochs=0",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests that share a server, or other costly preparations, are run by one process: once is enough."""
    from xdist.scheduler import LoadScopeScheduling

    class TogetherWhereTheyShare(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return next((name for name in SHARING if name in nodeid), nodeid)

    return TogetherWhereTheyShare(config, log)


def seed():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    seed()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """What several tests share is the same, whichever of them comes first."""
    if fixturedef.scope == "function":
        return (yield)
    seed()
    made = yield
    seed()
    return made


@pytest.fixture(autouse=True)
def _two_threads():
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))


@pytest.fixture(scope="session")
def world():
    return open_data("shapes:160")


@pytest.fixture(scope="session")
def snapshot_folder(world, tmp_path_factory):
    """A snapshot of one epoch: good for everything but its recall."""
    folder = tmp_path_factory.mktemp("snapshot")
    run(Recipe.load("demo-vse++", TINY), world, folder)
    return folder


@pytest.fixture
def photo_folder(tmp_path):
    """Thirty pictures with captions.csv, as somebody would have them."""
    lines = ["image,caption"]
    for item in open_data("shapes:32").items[:30]:
        name = f"{item.key.rpartition('/')[2]}.jpg"
        item.path.open(80).save(tmp_path / name)
        lines += [f'{name},"{caption}"' for caption in item.captions[:2]]
    (tmp_path / "captions.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture(scope="session")
def milvus_server(tmp_path_factory):
    """One for all tests of a process."""
    server = MilvusServer(tmp_path_factory.mktemp("milvus"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def flickr8k():
    folder = SHARED / "data" / "flickr8k"
    if not folder.is_dir():
        pytest.skip("needs Flickr8k's shards in ../shared/data/flickr8k")
    return folder
