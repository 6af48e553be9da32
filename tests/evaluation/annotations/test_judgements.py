"""People's judgement, in the form of Flickr8k's files."""

from pathlib import Path

import numpy as np
import pytest

from vsepp.errors import WrongRequest
from vsepp.evaluation.annotations.judgements import (
    RESAMPLES,
    human_correlation,
    read_judgements,
    word_overlap,
)
from vsepp.evaluation.embeddings import Embeddings, from_arrays
from vsepp.evaluation.measurement import Extras, measure_embeddings
from vsepp.evaluation.metrics.rank_correlation import kendall_c
from vsepp.evaluation.reports.forms import render
from vsepp.evaluation.reports.tables import report_tables

TEXTS = (
    "a dog runs",
    "a cat sleeps",
    "the dog ran",
    "cat on a sofa",
    "a red car",
    "the car is red",
)


def embeddings() -> Embeddings:
    images = np.eye(3, dtype=np.float32)
    captions = np.array(
        [[1, 0.2, 0], [0.1, 1, 0], [0.9, 0, 0], [0, 0.8, 0.3], [0, 0, 1], [0.2, 0, 0.7]], np.float32
    )
    owners = np.array([0, 1, 0, 1, 2, 2])
    return from_arrays(images, captions, owners, ["a", "b", "c.jpg"], texts=TEXTS)


def write(folder: Path) -> None:
    experts = ["a.jpg\tb.jpg#0\t1\t1\t2", "b.jpg\ta.jpg#1\t1\t1\t1", "c.jpg\tc.jpg#0\t4\t4\t4"]
    experts += ["a.jpg\tc.jpg#1\t2\t2\t1", "z.jpg\ta.jpg#0\t1\t1\t1"]
    crowd = ["a.jpg\tb.jpg#0\t0\t0\t3", "b.jpg\tc.jpg#0\t0.5\t1\t1", "c.jpg\tb.jpg#1\t1\t3\t0"]
    (folder / "ExpertAnnotations.txt").write_text("\n".join(experts) + "\n")
    (folder / "CrowdFlowerAnnotations.txt").write_text("\n".join(crowd) + "\n")


def test_pairs_are_found_and_own_captions_left_out(tmp_path: Path) -> None:
    write(tmp_path)
    these = embeddings()
    judged = read_judgements(tmp_path, "experts", these)
    assert judged.images.tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0]
    assert judged.captions.tolist() == [1, 1, 1, 2, 2, 2, 5, 5, 5]  # b#0, a#1 and c#1
    assert judged.scores.tolist() == [1, 1, 2, 1, 1, 1, 2, 2, 1]
    assert judged.absent == 3
    assert read_judgements(tmp_path, "crowd", these).scores.tolist() == [0, 0.5, 1]


def test_correlation_is_that_of_the_scores(tmp_path: Path) -> None:
    write(tmp_path)
    these = embeddings()
    found = human_correlation(these, these.matrix(), tmp_path, resamples=5)
    judged = read_judgements(tmp_path, "experts", these)
    assert these.images is not None and these.captions is not None
    scores = (these.images @ these.captions.T).numpy()[judged.images, judged.captions]
    assert found["experts"]["model"]["tau_c"]["value"] == pytest.approx(
        kendall_c(scores, judged.scores)
    )
    assert set(found["crowd"]) == {"judgements", "absent", "resamples", "model", "word overlap"}
    assert found["crowd"]["resamples"] == 5


def test_word_overlap_by_hand(tmp_path: Path) -> None:
    write(tmp_path)
    these = embeddings()
    overlap = word_overlap(these, read_judgements(tmp_path, "crowd", these))
    # "a cat sleeps" with "a dog runs" (1 of 3 and 3) and "the dog ran" (none)
    assert overlap[0] == pytest.approx((2 * 1 / 6 + 0) / 2)


def test_tables_say_how_many_resamples_an_interval_has(tmp_path: Path) -> None:
    write(tmp_path)
    result = measure_embeddings(embeddings(), extras=Extras(resamples=100, judgements=tmp_path))
    assert result.judgements["experts"]["resamples"] == RESAMPLES == 1000
    assert "intervals of 1,000 resamples" in render(report_tables(result))


def test_a_folder_without_judgements_is_named(tmp_path: Path) -> None:
    with pytest.raises(WrongRequest, match=r"ExpertAnnotations\.txt"):
        read_judgements(tmp_path, "experts", embeddings())
