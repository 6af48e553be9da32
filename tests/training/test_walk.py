"""How many of our files one batch of pictures crosses, from the disk to its gradient."""

import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import vsepp
from vsepp.data.captioned import CaptionedImage
from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.equations.losses import max_of_hinges
from vsepp.loading.batches import Pairs
from vsepp.loading.pictures_on_device import PicturesOnDevice
from vsepp.training.loop import Phase
from vsepp.training.trainer import steps_and_epochs

ROOT = str(Path(vsepp.__file__).parent)
CPU = torch.device("cpu")


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
    ("stepper", "is_on_device", "most"), [("plain", False, 11), ("captured", True, 11)]
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
    ours = [file for file in files if not file.startswith("data/")]  # decoding is a walk of its own
    assert len(ours) <= most, " ".join(files)
