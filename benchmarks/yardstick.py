"""How long does a full measurement take: 5,000 images, 25,000 captions, on a CPU?

    python benchmarks/yardstick.py [DIM]     ten minutes on two busy cores

Seconds are those of the processor, of one thread (OMP_NUM_THREADS=1): others may be using the machine.
In one run, on the same vectors, normalised, of COCO's test split (ids only):
- one evaluation (R@K both ways), and 10,000 bootstrap resamples over images beside it;
- ECCV Caption's own evaluator (package eccv_caption), and ours; for mAP@R, R-precision and R@1 of ECCV Caption and
  R@1, 5, 10 of COCO 1K, 5K and CxC; both from the vectors, and both alone: theirs from the lists of sorted ids that
  it needs, ours from the scores that it needs;
- the command of a researcher with two .npy files and a table of ids: the whole report.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from records import write_record

from vsepp.evaluation.annotations.eccv_caption import eccv_caption, eccv_caption_folder
from vsepp.evaluation.annotations.gallery import Gallery
from vsepp.evaluation.embeddings import Embeddings, from_arrays
from vsepp.evaluation.metrics.relevance import Positives
from vsepp.evaluation.metrics.uncertainty import PerImage, bootstrap
from vsepp.evaluation.retrieval import Retrieval

DIM = int(sys.argv[1]) if len(sys.argv) > 1 else 256
REPEATS = 5
TARGETS = (
    "eccv_r1",
    "eccv_map_at_r",
    "eccv_rprecision",
    "coco_1k_recalls",
    "coco_5k_recalls",
    "cxc_recalls",
)


def main() -> None:
    embeddings = vectors()
    measured: dict[str, Any] = {"dim": DIM, "threads": torch.get_num_threads()}
    for part in (uncertainty, eccv, command):
        measured |= part(embeddings)
        write_record(Path(__file__), measured, ("eccv_caption",))
    print(json.dumps(measured, indent=2))


def vectors() -> Embeddings:
    """Captions scattered about their images, under the ids of COCO's test split."""
    folder = eccv_caption_folder()
    assert folder is not None, "pip install eccv_caption"
    captions = np.load(folder / "coco_test_ids.npy").tolist()
    owner = json.loads((folder / "original_caption_to_image.json").read_text())
    owners = [owner[str(caption)][0] for caption in captions]
    images = list(dict.fromkeys(owners))
    rows = {image: row for row, image in enumerate(images)}
    generator = torch.Generator().manual_seed(0)
    of_images = torch.randn(len(images), DIM, generator=generator)
    noise = torch.randn(len(captions), DIM, generator=generator)
    of_captions = of_images[[rows[one] for one in owners]] + 0.28 * DIM**0.5 * noise
    unit = torch.nn.functional.normalize
    return from_arrays(unit(of_images), unit(of_captions), owners, images, captions)


def uncertainty(embeddings: Embeddings) -> dict[str, Any]:
    first = embeddings.matrix().transposed().best_ranks(Positives.of_captions(embeddings.owners))
    size = embeddings.num_images
    # seven figures, as many as a row of the paper's tables has
    seven = [PerImage.of((first <= k) * 100.0, embeddings.owners, size) for k in range(1, 8)]
    evaluations, bootstraps = [], []
    for _ in range(REPEATS):  # side by side: the machine's mood is the same for both
        evaluations.append(
            seconds(
                lambda: Retrieval.from_vectors(
                    embeddings.images, embeddings.captions, embeddings.owners
                )
            )
        )
        bootstraps.append(seconds(lambda: bootstrap(seven, 10_000)))
    return {
        "evaluation_seconds": rounded(evaluations),
        "bootstrap_of_10000_seconds": rounded(bootstraps),
        "bootstrap_to_evaluation": rounded(
            [b / e for b, e in zip(bootstraps, evaluations, strict=True)]
        ),
    }


def eccv(embeddings: Embeddings) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from eccv_caption import Metrics
    ours, ours_alone, found = [], [], {}
    for _ in range(REPEATS):
        started = time.process_time()
        matrix = embeddings.matrix()
        scored = time.process_time()
        for one in eccv_caption(Gallery(embeddings, matrix)):
            found[one.name, one.direction] = one.per_image.mean / 100
        ours.append(time.process_time() - started)
        ours_alone.append(time.process_time() - scored)
    metric = Metrics()
    started = time.process_time()
    scores = (embeddings.images @ embeddings.captions.T).numpy()
    # as objects, of which the lists share one for each id: 2 GB instead of 10
    images = np.array([int(one) for one in embeddings.image_ids], dtype=object)
    captions = np.array([int(one) for one in embeddings.caption_ids], dtype=object)
    by_image = {
        int(q): captions[np.argsort(-row)].tolist() for q, row in zip(images, scores, strict=True)
    }
    turned = np.ascontiguousarray(scores.T)
    by_caption = {
        int(q): images[np.argsort(-row)].tolist() for q, row in zip(captions, turned, strict=True)
    }
    lists = time.process_time() - started
    theirs = metric.compute_all_metrics(by_image, by_caption, target_metrics=TARGETS, Ks=(1, 5, 10))
    whole = time.process_time() - started
    apart = max(
        abs(value - found[name, way])
        for name, both in theirs.items()
        for way, value in (("captions", both["i2t"]), ("images", both["t2i"]))
    )
    assert apart < 1e-6, f"the two evaluators disagree: {apart}"
    alone = whole - lists
    return {
        "eccv_ours_seconds": rounded(ours),
        "eccv_ours_alone_seconds": rounded(ours_alone),
        "eccv_theirs_seconds": round(whole, 2),
        "eccv_theirs_alone_seconds": round(alone, 2),
        "eccv_theirs_to_ours": round(whole / float(np.median(ours)), 1),
        "eccv_theirs_to_ours_alone": round(alone / float(np.median(ours_alone)), 1),
        "eccv_theirs_alone_to_ours_from_vectors": round(alone / float(np.median(ours)), 1),
        "eccv_metrics": 2 * len(theirs),
        "eccv_largest_difference": float(apart),
    }


def command(embeddings: Embeddings) -> dict[str, Any]:
    assert embeddings.images is not None and embeddings.captions is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "i.npy", embeddings.images.numpy())
        np.save(folder / "c.npy", embeddings.captions.numpy())
        rows = zip(embeddings.owners.tolist(), embeddings.caption_ids, strict=True)
        lines = [f"{embeddings.image_ids[owner]},{one}" for owner, one in rows]
        (folder / "ids.csv").write_text("\n".join(["image_id,caption_id", *lines]) + "\n")
        words = "evaluate --images i.npy --captions c.npy --ids ids.csv --eccv package --per-query q.csv"
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "vsepp", *words.split()], cwd=folder, check=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "command": f"vsepp {words}",
            "command_seconds": round(used.ru_utime + used.ru_stime, 1),
            "command_seconds_by_the_clock": round(time.perf_counter() - started, 1),
        }


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def rounded(values: list[float]) -> list[float]:
    return [round(value, 2) for value in values]


if __name__ == "__main__":
    main()
