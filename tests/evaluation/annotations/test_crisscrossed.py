"""Crisscrossed Captions against an evaluation straight from its definition: on small files, and on the published ones.

The published files are read from $VSEPP_CXC, or ../shared/data/crisscrossed (its folder `data`).
"""

import csv
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import ArrayLike
from typer.testing import CliRunner

from vsepp.cli import app
from vsepp.errors import WrongRequest
from vsepp.evaluation.annotations.crisscrossed import crisscrossed, read_ratings
from vsepp.evaluation.annotations.gallery import Gallery
from vsepp.evaluation.embeddings import Embeddings, from_arrays

ROOT = Path(__file__).parents[3]
PUBLISHED = Path(os.environ.get("VSEPP_CXC", ROOT.parent / "shared" / "data" / "crisscrossed"))
needs_the_files = pytest.mark.skipif(
    not (PUBLISHED / "sits_test.csv").is_file(),
    reason="needs the csv files of Crisscrossed Captions in $VSEPP_CXC or ../shared/data/crisscrossed",
)
COLUMNS = {"sits": "caption,image", "sts": "caption1,caption2", "sis": "image1,image2"}
SPLITS = ("val", "test")


def write_small(folder: Path, num_images: int = 12, each: int = 5) -> None:
    """Both splits with every way of sampling, the columns and names as they are published."""
    generator = np.random.default_rng(0)
    for number, split in enumerate(SPLITS):
        images = [f"COCO_val2014_{1000 * number + n:012d}.jpg" for n in range(num_images)]
        first = 7000 * (number + 1)
        captions = [f"COCO_val2014:sentid:{first + n}" for n in range(each * num_images)]
        some = generator.permutation
        pairs = {
            "sits": [(c, images[n // each], "c2i_original") for n, c in enumerate(captions)],
            "sts": [(c, captions[n - n % each], "c2c_cocaption") for n, c in enumerate(captions)],
            "sis": list(
                zip(images, images[1:] + images[:1], num_images * ["i2i_csim"], strict=True)
            ),
        }
        pairs["sits"] += [(c, images[some(num_images)[0]], "c2i_intrasim") for c in captions]
        pairs["sts"] += [(c, captions[some(len(captions))[0]], "c2c_isim") for c in captions]
        pairs["sis"] += [
            (b, a, how) for a, b, how in pairs["sis"][::3]
        ]  # again, the other way round
        for kind, rows in pairs.items():
            known = {(a, b): how for a, b, how in reversed(rows) if a != b}
            lines = [f"{COLUMNS[kind]},agg_score,sampling_method"]
            lines += [
                f"{a},{b},{round(generator.uniform(0, 5), 2)},{how}"
                for (a, b), how in known.items()
            ]
            (folder / f"{kind}_{split}.csv").write_text("\n".join(lines) + "\n")
            (folder / f"{kind}_{split}_raw.csv").write_text("of every rater: not read\n")


# ---- straight from the definition ------------------------------------------------------------


def rated(folder: Path, kind: str, split: str) -> list[tuple[str, str, float]]:
    with (folder / f"{kind}_{split}.csv").open(newline="") as lines:
        rows = list(csv.reader(lines))[1:]
    return [(a, b, float(score)) for a, b, score, _ in rows]


def owners(folder: Path, split: str) -> dict[str, str]:
    """The image of each caption."""
    with (folder / f"sits_{split}.csv").open(newline="") as lines:
        rows = csv.DictReader(lines)
        return {r["caption"]: r["image"] for r in rows if r["sampling_method"] == "c2i_original"}


def random_embeddings(folder: Path, split: str, dim: int = 12) -> Embeddings:
    """Captions scattered about their images, in double precision: no two scores are nearly equal."""
    of_caption = owners(folder, split)
    images = list(dict.fromkeys(of_caption.values()))
    rows = [images.index(image) for image in of_caption.values()]
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(len(images), dim, generator=generator, dtype=torch.float64)
    noise = torch.randn(len(rows), dim, generator=generator, dtype=torch.float64)
    numbers = [caption.split(":")[-1] for caption in of_caption]
    own = list(of_caption.values())
    return from_arrays(vectors, vectors[rows] + 0.8 * noise, own, images, numbers)


def positives(folder: Path, split: str) -> dict[str, dict[str, set[str]]]:
    """Rated 3 or more; captions of one image are alike whatever they are rated."""
    found: dict[str, dict[str, set[str]]] = {
        way: defaultdict(set) for way in ("captions", "images", "text-text", "image-image")
    }
    for caption, image, score in rated(folder, "sits", split):
        if score >= 3:
            found["captions"][image].add(caption)
            found["images"][caption].add(image)
    for kind, way in (("sts", "text-text"), ("sis", "image-image")):
        for a, b, score in rated(folder, kind, split):
            if score >= 3:
                found[way][a].add(b)
                found[way][b].add(a)
    of_image = defaultdict(set)
    for caption, image in owners(folder, split).items():
        of_image[image].add(caption)
    for captions in of_image.values():
        for caption in captions:
            found["text-text"][caption] |= captions - {caption}
    return found


Vectors = dict[str, np.ndarray]


def slow_recalls(lists: dict[str, set[str]], queries: Vectors, items: Vectors) -> dict[int, float]:
    """A query is answered where one of its positives is among the K best of all items but itself."""
    row = {name: n for n, name in enumerate(items)}
    matrix = np.array(list(items.values()))
    ranks = []
    for query, wanted in lists.items():
        scores = matrix @ queries[query]
        if query in row:
            scores[row[query]] = -np.inf
        ranks.append(1 + (scores > scores[[row[one] for one in wanted]].max()).sum())
    return {k: float(np.mean(np.array(ranks) <= k)) for k in (1, 5, 10)}


def slow_spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Pearson's correlation of ranks; equal values have the mean of their ranks."""
    ranks = []
    for values in (np.array(x), np.array(y)):
        ordered = np.sort(values)
        below, up_to = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
        ranks.append((below + 1 + up_to) / 2)
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def slow_correlation(rows: list[tuple[str, str, float]], first: Vectors, second: Vectors) -> float:
    """The mean Spearman of 1,000 samples: half of the queries, one rated pair of each."""
    of_query = defaultdict(list)
    for a, b, score in rows:
        of_query[a].append((float(first[a] @ second[b]), score))
    lists = [of_query[name] for name in first if name in of_query]
    pairs = np.array([pair for one in lists for pair in one])
    counts = np.array([len(one) for one in lists])
    starts = np.cumsum(counts) - counts
    generator = np.random.default_rng(0)  # the same draws: what is compared is not chance
    found = []
    for _ in range(1000):
        half = generator.permutation(len(lists))[: len(lists) // 2]
        x, y = pairs[starts[half] + generator.integers(0, counts[half])].T
        found.append(slow_spearman(x, y))
    return float(np.mean(found))


def check_against_the_definition(folder: Path, split: str) -> None:
    embeddings = random_embeddings(folder, split)
    assert embeddings.images is not None and embeddings.captions is not None
    images: Vectors = dict(zip(embeddings.image_ids, embeddings.images.numpy(), strict=True))
    captions: Vectors = dict(zip(owners(folder, split), embeddings.captions.numpy(), strict=True))
    unit_images, unit_captions = (
        {name: vector / np.linalg.norm(vector) for name, vector in some.items()}
        for some in (images, captions)
    )
    found, correlations = crisscrossed(Gallery(embeddings, embeddings.matrix()), folder)
    ours = {(one.name, one.direction): one.per_image.mean / 100 for one in found}
    lists = positives(folder, split)
    for way, queries, items in (
        ("captions", images, captions),
        ("images", captions, images),
        ("text-text", unit_captions, unit_captions),
        ("image-image", unit_images, unit_images),
    ):
        for k, value in slow_recalls(lists[way], queries, items).items():
            assert ours.pop((f"cxc_r{k}", way)) == pytest.approx(value, abs=1e-6), (way, k)
    assert not ours
    for kind, first, second in (
        ("sits", captions, images),
        ("sts", unit_captions, unit_captions),
        ("sis", unit_images, unit_images),
    ):
        rows = rated(folder, kind, split)
        one = correlations.pop(kind)
        expected = slow_correlation(rows, first, second)
        assert one["sampled_spearman"] == pytest.approx(expected, abs=1e-6), kind
        x, y = zip(*((float(first[a] @ second[b]), score) for a, b, score in rows), strict=True)
        assert one["spearman"] == pytest.approx(slow_spearman(x, y), abs=1e-6), kind
        assert one["pairs"] == len(rows)
    assert not correlations


@pytest.mark.parametrize("split", SPLITS)
def test_equals_the_definition(tmp_path: Path, split: str) -> None:
    write_small(tmp_path)
    check_against_the_definition(tmp_path, split)


@needs_the_files
@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_equals_the_definition_on_the_published_files(split: str) -> None:
    check_against_the_definition(PUBLISHED, split)


@needs_the_files
def test_the_published_files_are_read() -> None:
    for kind, count, alike in (
        ("sits", 44_722 + 44_833, 37_254 + 35_585),
        ("sts", 44_009 + 44_045, 14_783 + 16_184),
        ("sis", 42_767 + 46_719, 21_942 + 15_458),
    ):
        ratings = read_ratings(PUBLISHED, kind)
        assert len(ratings.first) == len(ratings.second) == len(ratings.scores) == count
        assert ratings.scores.min() == 0 and ratings.scores.max() == 5
        assert len(ratings.alike()[0]) == alike


# ---- files that are not what they should be --------------------------------------------------


def test_a_folder_without_ratings_is_named(tmp_path: Path) -> None:
    with pytest.raises(WrongRequest, match=r"sits_test\.csv"):
        read_ratings(tmp_path, "sits")


@pytest.mark.parametrize("line", ["1,2", "x,2,3.0", "1,2,good", ""])
def test_a_line_that_is_no_rating_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "sits_test.csv").write_text(f"caption,image,agg_score\n1,2,3.0\n{line}\n4,5,1\n")
    with pytest.raises(WrongRequest, match=r"sits_test\.csv, line 3: expected two ids and a score"):
        read_ratings(tmp_path, "sits")


def test_ids_that_are_not_cocos_are_an_error(tmp_path: Path) -> None:
    write_small(tmp_path)
    embeddings = from_arrays(torch.randn(3, 4), torch.randn(6, 4), image_ids=["a", "b", "c"])
    with pytest.raises(WrongRequest, match="numbers of COCO"):
        crisscrossed(Gallery(embeddings, embeddings.matrix()), tmp_path)


def test_captions_without_cocos_numbers_are_an_error(tmp_path: Path) -> None:
    write_small(tmp_path)
    these = random_embeddings(tmp_path, "test")
    embeddings = from_arrays(these.images, these.captions, these.owners, these.image_ids)
    with pytest.raises(WrongRequest, match=r"^0 of 60 caption ids"):
        crisscrossed(Gallery(embeddings, embeddings.matrix()), tmp_path)


def test_models_are_compared_on_it(tmp_path: Path) -> None:
    write_small(tmp_path)
    embeddings = random_embeddings(tmp_path, "test")
    assert embeddings.images is not None and embeddings.captions is not None
    lines = ["image_id,caption_id"]
    for owner, caption in zip(embeddings.owners, embeddings.caption_ids, strict=True):
        lines.append(f"{embeddings.image_ids[owner]},{caption}")
    for name, scale in (("a", 0.0), ("b", 3.0)):
        (tmp_path / name).mkdir()
        noise = np.random.default_rng(0).standard_normal(embeddings.captions.shape)
        np.save(tmp_path / name / "images.npy", embeddings.images.numpy())
        np.save(tmp_path / name / "captions.npy", embeddings.captions.numpy() + scale * noise)
        (tmp_path / name / "ids.csv").write_text("\n".join(lines) + "\n")
    words = ["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--resamples", "100"]
    result = CliRunner().invoke(app, [*words, "--cxc", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert result.stdout.count("Positives that others annotated") == 2
    assert result.stdout.count("correlation with people's ratings") == 2
    assert "SITS" in result.stdout and "image-image" in result.stdout
