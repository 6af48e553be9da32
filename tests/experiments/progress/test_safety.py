"""A full disk, an interrupt: the last good snapshot stays, and the run can go on."""

import resource
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from tests.experiments.progress.test_resume import has_saved_an_epoch, words
from tests.memory import peak_extra_megabytes
from vsepp.snapshots.snapshot import Snapshot

pytestmark = pytest.mark.slow


def wait_for_an_epoch(into, process, seconds=600):
    end = time.monotonic() + seconds
    while not has_saved_an_epoch(into) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    assert has_saved_an_epoch(into)


def start(into):
    command = [sys.executable, "-m", "vsepp", *map(str, words(into))]
    # Where a shell has put the tests into the background, they and their children ignore an interrupt.
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=listen)


def test_a_full_disk_leaves_the_last_good_snapshot(tmp_path):
    process = start(tmp_path)
    wait_for_an_epoch(tmp_path, process)
    # From now on no file of this process may grow beyond some bytes: what a full disk does.
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (2_000, resource.RLIM_INFINITY))
    _, said = process.communicate(timeout=600)
    assert process.returncode == 1, said
    assert "Traceback" not in said
    assert "--resume" in said
    Snapshot.load(tmp_path)
    went_on = start(tmp_path)
    _, said = went_on.communicate(timeout=600)
    assert went_on.returncode == 0, said
    assert "epoch 1/" not in said  # the epochs before are not repeated


def test_an_interrupt_leaves_a_snapshot_that_can_be_used(tmp_path):
    process = start(tmp_path)
    wait_for_an_epoch(tmp_path, process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "--resume" in said
    Snapshot.load(tmp_path)
    assert (tmp_path / "image.onnx").exists()


def test_memory_stays_flat_over_an_epoch(tmp_path):
    """Pictures that do not fit into memory pass through it."""
    prepare = f"""
        from PIL import Image
        from vsepp.loading.batches import Pairs
        from vsepp.data.captioned import CaptionedImage
        from vsepp.data.pictures import View
        from vsepp.data.tokens import Vocabulary
        from pathlib import Path
        file = Path({str(tmp_path)!r}) / "a.jpg"
        Image.effect_noise((640, 480), 60).convert("RGB").save(file)
        items = [CaptionedImage(str(n), file, ("one",), "train") for n in range(600)]
        pairs = Pairs(items, Vocabulary.learn(["one"]), View(224, 256), memory=0)
        batches = pairs.batches(16, "random_resized")
        for batch in batches: pass
    """
    decoded = 600 * 3 * 256 * 341 / 1e6
    grown = peak_extra_megabytes(prepare, "for batch in batches: pass")
    assert decoded > 150
    assert grown < 40
