import json

import pytest
import torch

from vsepp.errors import WrongRequest
from vsepp.evaluation.behaviour import behaviour
from vsepp.evaluation.retrieval import embed
from vsepp.experiments.metrics import METRICS, read_metrics
from vsepp.experiments.progress.run_folder import MetricsLog
from vsepp.loading.batches import Pairs
from vsepp.snapshots.snapshot import Snapshot

pytestmark = pytest.mark.slow


def test_every_epoch_is_written_down_with_its_behaviour(snapshot_folder, world):
    snapshot = Snapshot.load(snapshot_folder)
    best = snapshot.notes["epoch"] - 1
    written = json.loads((snapshot_folder / METRICS).read_text().splitlines()[best])
    assert {"number", "phase", "seconds", "loss", "num_steps", "validation", "best"} < set(written)
    pairs = Pairs(world.split("val"), snapshot.vocabulary, snapshot.architecture.view)
    owners = torch.from_numpy(pairs.image_of_caption)
    similarity = snapshot.model.similarity
    again = behaviour(*embed(snapshot.model, pairs), owners, similarity, margin=0.5, batch_size=32)
    point = read_metrics(snapshot_folder, ["sum_of_hinges"])[best]
    assert point.behaviour == again
    assert (again.batch_size, again.num_pairs) == (20, 20)  # pictures of the validation split
    assert point.loss_name == "sum_of_hinges"
    assert point.loss == written["loss"]
    assert point.validation.as_dict() == written["validation"]


def test_time_adds_up_and_older_metrics_are_read(snapshot_folder, tmp_path):
    line = json.loads((snapshot_folder / METRICS).read_text().splitlines()[0])
    older = {key: value for key, value in line.items() if key != "behaviour"}
    lines = [
        older | {"number": 1, "seconds": 2.0},
        line | {"number": 2, "seconds": 3.5, "phase": 3},
    ]
    (tmp_path / METRICS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    first, second = read_metrics(tmp_path, ["sum_of_hinges"])
    assert (first.epoch, first.seconds, first.behaviour) == (1, 2.0, None)
    assert (second.epoch, second.seconds, second.loss_name) == (2, 5.5, "")
    assert second.behaviour is not None
    with MetricsLog(
        tmp_path, 128, epochs_done=1
    ):  # a resumed run keeps the lines of older versions
        pass
    assert len(read_metrics(tmp_path)) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is not a run: it has no metrics.jsonl"),
        ("", "no epoch of the run has ended yet"),
        ("{}\n", "line 1 is not an epoch"),
        ("[1]\n", "line 1 is not an epoch"),
        ("number 1\n", "line 1 is not an epoch"),
    ],
)
def test_what_is_not_a_run_is_said(tmp_path, content, message):
    if content is not None:
        (tmp_path / METRICS).write_text(content)
    with pytest.raises(WrongRequest, match=message):
        read_metrics(tmp_path)
