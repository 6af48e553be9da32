"""ECCV Caption (Chun et al., 2022): more positives for COCO's test images, read from its package or its json files."""

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from vsepp.errors import WrongRequest
from vsepp.evaluation.annotations.gallery import (
    Gallery,
    NumberPairs,
    Statistic,
    check_known,
    check_some,
    positives_of,
    recalls,
    scores_of,
)
from vsepp.evaluation.metrics.relevance import NEVER, Ints, Positives

ORDER = "coco_test_ids.npy"
WAYS = "image_to_caption", "caption_to_image"
FILES = ORDER, *(f"{source}_{way}.json" for source in ("eccv", "original", "cxc") for way in WAYS)


def eccv_caption_folder() -> Path | None:
    """Where the installed package keeps its annotations."""
    package = find_spec("eccv_caption")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "data"


def eccv_caption(gallery: Gallery, folder: Path | None = None) -> list[Statistic]:
    """mAP@R, R-precision and R@1 on ECCV Caption's positives; R@K on those of COCO and CxC."""
    folder = _complete(folder or eccv_caption_folder())
    images, captions = (_read_lists(folder / f"original_{way}.json")[0] for way in WAYS)
    check_known(gallery, images, captions, folder)
    found = []
    for direction, positives in _both_ways(gallery, folder, "eccv"):
        ranks = scores_of(gallery, direction).first_ranks(positives)
        for name, values in (
            ("eccv_map_at_r", ranks.map_at_r()),
            ("eccv_rprecision", ranks.r_precision()),
            ("eccv_r1", ranks.recall_at(1)),
        ):
            found.append(gallery.statistic(name, direction, values, positives.queries))
    for source, name in (("original", "coco_5k"), ("cxc", "cxc")):
        for direction, positives in _both_ways(gallery, folder, source):
            first = scores_of(gallery, direction).best_ranks(positives)
            found += recalls(gallery, name, direction, first, positives.queries)
    return found + _coco_1k(gallery, folder)


def _complete(folder: Path | None) -> Path:
    if folder is not None and all((folder / file).is_file() for file in FILES):
        return folder
    raise WrongRequest(
        "ECCV Caption's annotations are not there. Install them: pip install eccv_caption; or name "
        f"the folder with {', '.join(FILES)}: --eccv FOLDER"
    )


def _coco_1k(gallery: Gallery, folder: Path) -> list[Statistic]:
    """R@K within five folds of 1,000 images, by the published order of the captions."""
    order = np.load(folder / ORDER, allow_pickle=False)
    fold_of_caption = np.full(gallery.embeddings.num_captions, -1)
    rows = gallery.captions.find(order)
    known = rows[rows >= 0]
    fold_of_caption[known] = (np.arange(len(order)) * 5 // len(order))[rows >= 0]
    fold_of_image = np.full(gallery.embeddings.num_images, -1)
    fold_of_image[gallery.embeddings.owners[known]] = fold_of_caption[known]
    folds = {
        "captions": (fold_of_image, fold_of_caption),
        "images": (fold_of_caption, fold_of_image),
    }
    found = []
    for direction, positives in _both_ways(gallery, folder, "original"):
        of_queries, of_items = folds[direction]
        first = np.full(len(positives), NEVER)  # for a query without a fold, as good as never found
        for fold in range(5):
            chosen = np.flatnonzero(of_queries[positives.queries] == fold)
            columns = np.flatnonzero(of_items == fold)
            if len(chosen) and len(columns):
                some = _within(positives, chosen, columns)
                first[chosen] = scores_of(gallery, direction).best_ranks(some, columns)
        found += recalls(gallery, "coco_1k", direction, first, positives.queries)
    return found


def _within(positives: Positives, chosen: Ints, columns: Ints) -> Positives:
    """Some of the queries, their items renumbered within some columns; those elsewhere are never found."""
    # The last place is that of absent items.
    place = np.full(max(positives.items.max(), columns.max()) + 2, -1)
    place[columns] = np.arange(len(columns))
    queries = np.repeat(np.arange(len(positives)), positives.counts)
    inside = np.isin(queries, chosen)
    return Positives.from_pairs(positives.queries[queries[inside]], place[positives.items[inside]])


def _both_ways(gallery: Gallery, folder: Path, name: str) -> list[tuple[str, Positives]]:
    """Captions of images, and images of captions."""
    to_captions, to_images = (_read_lists(folder / f"{name}_{way}.json") for way in WAYS)
    # As in the authors' code, captions that are not in COCO's split count as never found; in a part
    # of the split, though, what is missing is left out.
    is_whole = bool((gallery.images.find(np.unique(to_captions[0])) >= 0).all())
    ways = [
        ("captions", positives_of(to_captions, gallery.images, gallery.captions, is_whole)),
        ("images", positives_of(to_images, gallery.captions, gallery.images, is_whole)),
    ]
    for _, positives in ways:
        check_some(positives, folder)
    return ways


@cache
def _read_lists(file: Path) -> NumberPairs:
    content = json.loads(file.read_text(encoding="utf-8"))
    counts = [len(items) for items in content.values()]
    queries = np.repeat(np.array([int(query) for query in content], dtype=np.int64), counts)
    return queries, np.array([int(i) for items in content.values() for i in items], dtype=np.int64)
