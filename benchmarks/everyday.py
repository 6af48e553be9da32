"""Everyday search: the commonest nouns and two-word phrases, over photos that no model has learned from.

    python benchmarks/everyday.py DATA SHARD [SHARD ...] [--model MODEL]      a few minutes on two cores

DATA names the photos in the record ("coco test + flickr8k test"); each SHARD is a tar of KEY.jpg and KEY.json with
{"captions": [...]}. All shards become one collection, which is searched as `vsepp search` searches. A photo is relevant to a
query if at least two of its captions say it, in any of the forms that everyday.json lists.

Reported for each kind of query: mean average precision of the whole ranking, and precision, recall and F1 of what the
cut-off shows, averaged over queries; beside it the F1 of the best possible cut-off of each query, which no rule can beat.

The 300 nouns and 100 phrases are those of the most COCO test and Flickr8k test photos by that definition (spaCy's
en_core_web_md tagged 10,000 captions; a noun is asked for in its commonest form). None was added or taken out by hand, so
"front" and "group" are among them. "frequent" are the first 100 nouns.
"""

import argparse
import json
import re
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from records import write_record

import vsepp

QUERIES = json.loads(Path(__file__).with_name("everyday.json").read_text())
NUM_FREQUENT, CAPTIONS_THAT_SAY_IT = 100, 2

Captions = Mapping[str, Sequence[Sequence[str]]]  # of each photo, by key: words


def read_captions(shards: Iterable[Path]) -> Captions:
    captions = {}
    for shard in shards:
        with tarfile.open(shard) as tar:
            for member in tar:
                if member.name.endswith(".json"):
                    texts = json.load(tar.extractfile(member))["captions"]
                    captions[Path(member.name).stem] = [
                        re.findall(r"[a-z]+", text.lower()) for text in texts
                    ]
    return captions


def relevant(captions: Captions, says: Sequence[Sequence[str]]) -> set[str]:
    """Photos of which enough captions have one form of each word, one word after the other."""

    def is_said(words: Sequence[str]) -> bool:
        if len(says) == 1:
            return any(word in says[0] for word in words)
        return any(one in says[0] and two in says[1] for one, two in pairwise(words))

    return {
        key for key, texts in captions.items() if sum(map(is_said, texts)) >= CAPTIONS_THAT_SAY_IT
    }


def judge(collection: vsepp.Collection, query: str, right: set[str]) -> dict[str, float]:
    """Of one query: average precision, and what its cut-off does."""
    ranking = [hit.path.stem for hit in collection.search(query, k=len(collection), min_score=-9)]
    shown = len(collection.search(query, k=len(collection)))
    if not ranking:  # the model knows no word of it
        return dict.fromkeys(("ap", "precision", "recall", "f1", "best_f1", "shown"), 0.0)
    is_right = np.array([key in right for key in ranking])
    hits, places = np.cumsum(is_right), np.arange(1, len(ranking) + 1)
    f1 = 2 * hits / (places + len(right))
    return {
        "ap": float((hits / places)[is_right].sum() / len(right)),
        "precision": float(hits[shown - 1] / shown) if shown else 0.0,
        "recall": float(hits[shown - 1] / len(right)) if shown else 0.0,
        "f1": float(f1[shown - 1]) if shown else 0.0,
        "best_f1": float(f1.max()),
        "shown": shown,
    }


def measure(
    collection: vsepp.Collection, captions: Captions, queries: Mapping[str, Any]
) -> dict[str, Any]:
    rows = []
    for query, forms in queries.items():
        right = relevant(captions, forms if isinstance(forms[0], list) else [forms])
        if right:
            rows.append({**judge(collection, query, right), "right": len(right)})
    means = {key: round(float(np.mean([row[key] for row in rows])), 4) for key in rows[0]}
    nothing = sum(row["shown"] == 0 for row in rows)
    return {"queries": len(rows), "nothing_shown": nothing, **means}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("data")
    arguments.add_argument("shards", nargs="+", type=Path)
    arguments.add_argument("--model", help="a snapshot; without one, the model that comes along")
    asked = arguments.parse_args()
    model = vsepp.load(asked.model) if asked.model else vsepp.load()
    nouns = QUERIES["nouns"]
    kinds = {
        "frequent nouns": dict(list(nouns.items())[:NUM_FREQUENT]),
        "nouns": nouns,
        "phrases": QUERIES["pairs"],
    }
    captions = read_captions(asked.shards)
    with tempfile.TemporaryDirectory() as folder:
        collection = vsepp.Collection.create(Path(folder) / "photos.vse", model)
        for shard in asked.shards:
            collection.add(shard)
        assert len(collection) == len(captions), (len(collection), len(captions))
        measured = {name: measure(collection, captions, some) for name, some in kinds.items()}
        collection.close()
    found = {"data": asked.data, "photos": len(captions), "model": asked.model or "in the box"}
    print(json.dumps({**found, **measured}, indent=2))
    write_record(Path(__file__), {**found, **measured})


if __name__ == "__main__":
    main()
