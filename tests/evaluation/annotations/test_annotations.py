"""Annotations of others: small files in their real form, and the authors' evaluator where it is installed."""

import json
import warnings
from itertools import product
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vsepp.errors import WrongRequest
from vsepp.evaluation.annotations.eccv_caption import eccv_caption, eccv_caption_folder
from vsepp.evaluation.annotations.gallery import Gallery, Numbers, Statistic
from vsepp.evaluation.annotations.pmrp import _mean_r_precision, pmrp
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


@pytest.mark.parametrize("counted", ["COCO_val2014_000000000100.jpg#3", "100#7", 20 * "9"])
def test_counted_captions_and_longest_numbers_are_no_numbers(counted: str) -> None:
    numbers = Numbers.of([counted, "8"])
    assert numbers.find(np.array([100, 3, 7, 8])).tolist() == [-1, -1, -1, 1]


def test_a_number_that_two_items_have_is_found_in_neither() -> None:
    assert Numbers.of(["5", "6", "5"]).find(np.array([5, 6])).tolist() == [-1, 1]
    assert Numbers.of(["a/5.jpg", "6", "b/5.jpg"]).find(np.array([5, 6])).tolist() == [-1, 1]


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


def test_a_folder_instead_of_the_file_of_labels_is_named(tmp_path: Path) -> None:
    with pytest.raises(WrongRequest, match=r"is no file.*instances_val2014\.json"):
        pmrp(gallery(), tmp_path)


def test_labels_of_other_images_are_an_error(tmp_path: Path) -> None:
    file = tmp_path / "instances_val2014.json"
    file.write_text(json.dumps({"annotations": [{"image_id": 5, "category_id": 1}]}))
    with pytest.raises(WrongRequest, match="labels of none of these images"):
        pmrp(gallery(), file)


@given(st.integers(0, 10_000))
def test_plausible_matches_with_infinite_scores_and_none_like_the_slow_twin(seed: int) -> None:
    """Sorted one by one, others ahead of relevant items of the same score, and of those without one."""
    generator = np.random.default_rng(seed)
    values = np.array([-np.inf, np.nan, np.inf, 0, 1], dtype=np.float32)
    scores = generator.choice(values[: generator.integers(1, 6)], (3, 25))
    distances = generator.integers(0, 5, scores.shape)
    distances[:, 0] = 0  # each query matches itself
    expected = np.zeros(3)
    for query, distance in product(range(3), (0, 1, 2)):
        right = distances[query] <= distance
        known = np.where(np.isnan(scores[query]), np.where(right, -np.inf, np.inf), scores[query])
        order = sorted(range(25), key=lambda n: (-known[n], right[n]))
        expected[query] += right[order][: right.sum()].mean() / 3
    assert _mean_r_precision(scores, distances) == pytest.approx(expected)


# ---- ECCV Caption ----------------------------------------------------------------------------


def test_where_nothing_is_installed_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(WrongRequest, match="pip install eccv_caption"):
        eccv_caption(gallery(), tmp_path)


def write_eccv(folder: Path, images: int = 12, each: int = 3, counted: int = 2) -> None:
    """The images and captions of `gallery`: each image's own, in folds that know `counted` of them."""
    own = {100 + n: [1000 + each * n + m for m in range(each)] for n in range(images)}
    turned = {caption: [image] for image, some in own.items() for caption in some}
    for name in ("eccv", "cxc", "original"):
        (folder / f"{name}_image_to_caption.json").write_text(json.dumps(own))
        (folder / f"{name}_caption_to_image.json").write_text(json.dumps(turned))
    order = [caption for some in own.values() for caption in some[:counted]]
    np.save(folder / "coco_test_ids.npy", np.array(order))


def with_caption_ids(these: Gallery, caption_ids: list[str] | None) -> Gallery:
    e = these.embeddings
    found = from_arrays(e.images, e.captions, e.owners, e.image_ids, caption_ids)
    return Gallery(found, found.matrix())


def test_queries_without_a_fold_are_no_hits(tmp_path: Path) -> None:
    write_eccv(tmp_path, images=10)  # folds of two images
    found = means(eccv_caption(gallery(images=10), tmp_path))
    assert found["coco_5k_r10", "images"] == 1
    assert found["coco_1k_r10", "images"] == pytest.approx(2 / 3)  # each third caption has no fold
    assert found["coco_1k_r10", "captions"] == 1


def test_positives_in_other_folds_are_never_found(tmp_path: Path) -> None:
    write_eccv(tmp_path, images=10, each=3, counted=3)
    # The last captions of the first image and of the last one change places, and the first image goes along.
    order = np.load(tmp_path / "coco_test_ids.npy")
    order[[2, -1]] = order[[-1, 2]]
    np.save(tmp_path / "coco_test_ids.npy", order)
    found = means(eccv_caption(gallery(images=10, dim=64), tmp_path))
    assert found["coco_1k_r10", "images"] == pytest.approx(27 / 30)


@pytest.mark.parametrize("known", [0, 12, 17])
def test_captions_without_cocos_numbers_are_an_error(tmp_path: Path, known: int) -> None:
    write_eccv(tmp_path)
    these = gallery()
    ids = [*map(str, range(1000, 1000 + known))]
    ids += [f"{these.embeddings.image_ids[n // 3]}#{n % 3}" for n in range(known, 36)]
    with pytest.raises(WrongRequest, match=f"^{known} of 36 caption ids are in .* caption_id"):
        eccv_caption(with_caption_ids(these, ids), tmp_path)


def test_a_table_without_caption_ids_is_an_error(tmp_path: Path) -> None:
    write_eccv(tmp_path)
    with pytest.raises(WrongRequest, match=r"^0 of 36 caption ids"):
        eccv_caption(with_caption_ids(gallery(), None), tmp_path)


def test_captions_with_the_number_of_their_image_are_an_error(tmp_path: Path) -> None:
    write_eccv(tmp_path)
    ids = [str(1000 + n // 3) for n in range(36)]
    with pytest.raises(WrongRequest, match=r"^0 of 36 caption ids .* each once"):
        eccv_caption(with_caption_ids(gallery(), ids), tmp_path)


def test_ids_that_are_not_cocos_are_an_error(tmp_path: Path) -> None:
    write_eccv(tmp_path)
    these = gallery(images=13).embeddings
    elsewhere = from_arrays(these.images, these.captions, these.owners)
    with pytest.raises(WrongRequest, match=r"^0 of 13 image ids .* numbers of COCO"):
        eccv_caption(Gallery(elsewhere, elsewhere.matrix()), tmp_path)


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
