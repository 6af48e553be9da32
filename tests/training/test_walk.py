"""How many of our files `vsepp train` calls up to its first step, and one batch of pictures up to its gradient."""

import inspect
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import vsepp
import vsepp.experiments.run  # so that nothing is imported meanwhile
from vsepp.cli import app
from vsepp.data.captioned import CaptionedImage
from vsepp.data.resources import workers
from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.equations.losses import max_of_hinges
from vsepp.loading.batches import Pairs
from vsepp.loading.on_device import PicturesOnDevice
from vsepp.training.loop import Phase
from vsepp.training.trainer import steps_and_epochs

ROOT = str(Path(vsepp.__file__).parent)
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def new_threads():
    """Only threads that start while calls are noted are seen, so none may be left from other tests."""
    workers.cache_clear()


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    folder, generator = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    found = []
    for number in range(24):
        file = folder / f"{number}.jpg"
        pixels = generator.integers(0, 256, (60, 80, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(file)
        found.append(CaptionedImage(str(number), file, ("a b c", "d e"), "train"))
    return found


def files_until_backward(events, monkeypatch):
    """The files of all functions of ours that are called before the next backward pass."""
    files, until_backward, backward = set(), [], torch.autograd.backward

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            files.add(frame.f_code.co_filename.removeprefix(ROOT + "/"))

    def spy(*args, **kwargs):
        until_backward.append(sorted(files))
        backward(*args, **kwargs)

    monkeypatch.setattr(torch.autograd, "backward", spy)
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        next(events)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return until_backward[0]


@pytest.mark.parametrize(
    ("stepper", "is_on_device", "most"), [("plain", False, 12), ("captured", True, 12)]
)
def test_a_batch_of_pictures_crosses_few_files(items, monkeypatch, stepper, is_on_device, most):
    vocabulary = Vocabulary.learn(["a b c d e"])
    sizes = {"size": 32, "resize": 40, "dim": 16, "word_dim": 8, "num_words": len(vocabulary)}
    plan = Architecture(backbone="mobilenetv3_small_050", **sizes)
    pairs = Pairs(items, vocabulary, plan.view)
    if is_on_device:
        pairs = pairs.with_images(PicturesOnDevice.of(items, plan.view, CPU))
    model = JointEmbedding.build(plan, finetune=True)
    batches = pairs.batches(16, "random_resized")
    phases = [Phase(1, 1e-3, max_of_hinges, "cosine")]
    events = steps_and_epochs(model, batches, phases, stepper=stepper)
    files = files_until_backward(events, monkeypatch)
    assert "loading/batches.py" in files and "equations/losses.py" in files
    # From the disk with the plain stepper; the captured one finds decoded pictures on its device.
    assert ("data/image_file.py" in files) != is_on_device
    assert len(files) <= most, " ".join(files)


class FirstStep(Exception):
    pass


def test_training_calls_few_files_before_its_first_step(monkeypatch, tmp_path):
    """Functions of ours; what a module does when it is imported does not count."""
    files = set()

    def note(frame, event, _):
        code = frame.f_code
        named = not code.co_name.startswith("<") and code.co_flags & inspect.CO_OPTIMIZED
        if event == "call" and named and code.co_filename.startswith(ROOT):
            files.add(code.co_filename.removeprefix(ROOT + "/"))

    def stop(*_, **__):
        raise FirstStep

    monkeypatch.setattr(torch.optim.Adam, "step", stop)
    words = ["train", "scratch", "--data", "shapes:48", "--into", str(tmp_path / "run")]
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with pytest.raises(FirstStep):
            app(words, standalone_mode=False)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert {"cli/learning.py", "experiments/run.py", "training/loop.py"} <= files
    assert len(files) <= 25, " ".join(sorted(files))
