"""Annotations of others: small files in their real form, and the authors' evaluator where it is installed."""

import json
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from vsepp.errors import WrongRequest
from vsepp.evaluation.annotations.eccv_caption import eccv_caption, eccv_caption_folder
from vsepp.evaluation.annotations.gallery import Gallery, Numbers, Statistic
from vsepp.evaluation.annotations.pmrp import pmrp
from vsepp.evaluation.embeddings import from_arrays


def gallery(images: int = 12, each: int = 3, dim: int = 6, seed: int = 0) -> Gallery:
    """Image n has the number 100 + n, caption m the number 1000 + m."""
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(images, dim, generator=generator)
    noise = torch.randn(images * each, dim, generator=generator)
    captions = vectors.repeat_interleave(each, 0) + noise
    names = [f"COCO_val2014_{100 + n:012d}.jpg" for n in range(images)]
    owners = np.repeat(np.arange(images), each)
    numbers = [1000 + m for m in range(images * each)]
    embeddings = from_arrays(vectors, captions, owners, names, numbers)
    return Gallery(embeddings, embeddings.matrix())


def means(found: list[Statistic]) -> dict[tuple[str, str], float]:
    return {(one.name, one.direction): one.per_image.mean / 100 for one in found}


def test_numbers_are_found_in_ids() -> None:
    numbers = Numbers.of(["COCO_val2014_000000391895.jpg", "nothing", "7", "images/12.jpg"])
    assert numbers.find(np.array([391895, 12, 7, 8])).tolist() == [0, 3, 2, -1]
    plain = Numbers.of(["30", "010", "20"])
    assert plain.find(np.array([10, 20, 30, 40])).tolist() == [1, 2, 0, -1]
    assert Numbers.of([]).find(np.array([1])).tolist() == [-1]


# ---- PMRP ------------------------------------------------------------------------------------


def test_plausible_matches_like_the_slow_twin(tmp_path: Path) -> None:
    these = gallery(seed=3)
    generator = np.random.default_rng(1)
    labels = {n: set(generator.integers(1, 5, 2).tolist()) for n in range(11)}  # the last has none
    notes = [{"image_id": 100 + n, "category_id": c} for n, some in labels.items() for c in some]
    file = tmp_path / "instances_val2014.json"
    file.write_text(json.dumps({"annotations": notes}))
    ours = means(pmrp(these, file))
    assert these.embeddings.images is not None and these.embeddings.captions is not None
    scores = (these.embeddings.images @ these.embeddings.captions.T).numpy()
    values: dict[str, list[float]] = {"captions": [], "images": []}
    for distance in (0, 1, 2):
        plausible = {
            a: {b for b in labels if len(labels[a] ^ labels[b]) <= distance} for a in labels
        }
        for a in labels:
            order = [c for c in np.argsort(-scores[a]).tolist() if c // 3 in labels]
            right = [c // 3 in plausible[a] for c in order]
            values["captions"].append(sum(right[: sum(right)]) / sum(right))
            for caption in range(3 * a, 3 * a + 3):
                order = [i for i in np.argsort(-scores[:, caption]).tolist() if i in labels]
                right = [i in plausible[a] for i in order]
                values["images"].append(sum(right[: sum(right)]) / sum(right))
    for way, expected in values.items():
        assert ours["pmrp", way] == pytest.approx(np.mean(expected))


# ---- ECCV Caption ----------------------------------------------------------------------------


def test_where_nothing_is_installed_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(WrongRequest, match="pip install eccv_caption"):
        eccv_caption(gallery(), tmp_path)


def test_ids_that_are_not_cocos_are_an_error(tmp_path: Path) -> None:
    for name in ("eccv", "cxc", "original"):
        (tmp_path / f"{name}_image_to_caption.json").write_text('{"5": [6]}')
        (tmp_path / f"{name}_caption_to_image.json").write_text('{"6": [5]}')
    with pytest.raises(WrongRequest, match="numbers of COCO"):
        eccv_caption(gallery(), tmp_path)


def authors_package() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("eccv_caption", reason="eccv_caption is not installed")


@pytest.mark.slow
def test_equals_the_authors_evaluator() -> None:
    package = authors_package()
    folder = eccv_caption_folder()
    assert folder is not None
    captions = np.load(folder / "coco_test_ids.npy").tolist()
    owner = json.loads((folder / "original_caption_to_image.json").read_text())
    owners = [owner[str(caption)][0] for caption in captions]
    images = list(dict.fromkeys(owners))
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(len(images), 24, generator=generator)
    rows = {image: row for row, image in enumerate(images)}
    of_caption = torch.tensor([rows[one] for one in owners])
    noise = torch.randn(len(captions), 24, generator=generator)
    embeddings = from_arrays(vectors, vectors[of_caption] + noise, owners, images, captions)
    assert embeddings.captions is not None
    ours = means(eccv_caption(Gallery(embeddings, embeddings.matrix())))
    scores = vectors @ embeddings.captions.T
    metric = package.Metrics()
    found = _authors_numbers(metric, scores, np.array(images), np.array(captions), of_caption)
    assert len(found) == 12
    for name, (i2t, t2i) in found.items():
        assert ours[name, "captions"] == pytest.approx(i2t, abs=1e-6), name
        assert ours[name, "images"] == pytest.approx(t2i, abs=1e-6), name


def _authors_numbers(
    metric: object,
    scores: torch.Tensor,
    images: np.ndarray,
    captions: np.ndarray,
    owners: torch.Tensor,
) -> dict[str, tuple[float, float]]:
    """As many of the first items as their code looks at: whole lists would take minutes."""
    longest = 200

    def lists(of_scores: torch.Tensor, queries: np.ndarray, items: np.ndarray) -> dict:
        top = of_scores.topk(min(longest, of_scores.shape[1]), dim=1).indices.numpy()
        return {int(q): items[row].tolist() for q, row in zip(queries, top, strict=True)}

    whole = {"i2t": lists(scores, images, captions), "t2i": lists(scores.T, captions, images)}
    found = {
        name: (one["i2t"], one["t2i"])
        for name, one in metric.eccv_metrics(whole, "all").items()  # type: ignore[attr-defined]
    }
    for source, name in (("coco_5k", "coco_5k_recalls"), ("cxc", "cxc_recalls")):
        for k in (1, 5, 10):
            one = getattr(metric, name)(whole, "all", K=k)
            found[f"{source}_r{k}"] = one["i2t"], one["t2i"]
    fold_of_image, fold_of_caption = torch.arange(len(images)) // 1000, owners // 1000
    apart = scores.masked_fill(fold_of_image[:, None] != fold_of_caption[None, :], -torch.inf)
    within = {"i2t": lists(apart, images, captions), "t2i": lists(apart.T, captions, images)}
    for k in (1, 5, 10):
        one = metric.coco_1k_recalls(within, "all", K=k)  # type: ignore[attr-defined]
        found[f"coco_1k_r{k}"] = one["i2t"], one["t2i"]
    return found
