"""What are words worth that the model was not taught, but that were added by `vsepp expand`?

    python benchmarks/held_out_words.py DATA WORD_VECTORS [MODEL]       two minutes on two cores; DATA is Flickr8k

A tenth at a time, the model's words (but for the 500 most frequent ones) are forgotten, and their vectors predicted from
the others by the map that `vsepp expand` fits. Test captions with such a word then look for their photo: with what the
model has learned, with predicted vectors, and with the word unknown. The net and the GRU have met the words, so this
measures the vectors alone.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from records import write_record
from torch import Tensor

from vsepp.data.collections import open_data
from vsepp.data.tokens import dimension_of, read_word_vectors
from vsepp.encoders.architecture import IN_THE_BOX
from vsepp.evaluation.retrieval import embed_images
from vsepp.loading.batches import Pairs, pad
from vsepp.snapshots.snapshot import Snapshot
from vsepp.snapshots.surgery import apply, linear_map

PARTS, NEVER_FORGOTTEN, CAPTIONS_A_PART = 10, 500, 400
NO_WORD = "qqqqq"


def predicted(table: Tensor, ids: Tensor, vectors: np.ndarray, gone: np.ndarray) -> Tensor:
    """The table of words with the rows of `gone` words predicted from the others."""
    # table (W, E); ids (K,) of the words with vectors (K, F); gone bool (K,)
    learned = table[ids[~gone]].double().numpy()
    weights = linear_map(vectors[~gone], learned)
    after = table.clone()
    after[ids[gone]] = torch.from_numpy(apply(weights, vectors[gone])).to(table)
    return after


@torch.inference_mode()
def embedded(snapshot: Snapshot, texts: list[str], table: Tensor) -> Tensor:
    snapshot.model.caption_encoder.words.weight.copy_(table)
    words = [np.array(ids) for ids in snapshot.vocabulary.encode(texts)]
    parts = [words[start : start + 256] for start in range(0, len(words), 256)]
    return torch.cat([snapshot.model.embed_captions(*pad(part)) for part in parts])


def recalls(captions: Tensor, images: Tensor, owners: list[int]) -> dict[str, float]:
    scores = captions @ images.T
    own = scores[torch.arange(len(owners)), torch.tensor(owners)]
    ranks = (scores >= own[:, None]).sum(dim=1)
    return {f"r{k}": round(100 * float((ranks <= k).float().mean()), 1) for k in (1, 5, 10)}


def measure(snapshot: Snapshot, data: str, file: Path) -> dict[str, Any]:
    test = open_data(data).split("test")
    vocabulary = snapshot.vocabulary
    found = read_word_vectors(file, vocabulary.words(), dimension_of(file))
    known = [word for word in vocabulary.words() if word in found]
    ids = torch.tensor([vocabulary.tokenizer.token_to_id(word) for word in known])
    vectors = np.stack([found[word] for word in known]).astype(np.float64)
    part_of = np.array([-1] * len(known))
    rare = list(range(NEVER_FORGOTTEN, len(known)))
    random.Random(0).shuffle(rare)
    part_of[rare] = np.arange(len(rare)) % PARTS
    table = snapshot.model.caption_encoder.words.weight.detach().clone()
    pairs = Pairs(test, vocabulary, snapshot.architecture.view, memory=0)
    images = embed_images(snapshot.model, pairs)
    captions = [
        (owner, [word.lower() for word, _ in vocabulary.words_with_known(text)])
        for owner, item in enumerate(test)
        for text in item.captions
    ]
    owners: list[int] = []
    vectors_of: dict[str, list[Tensor]] = {"learned": [], "predicted": [], "unknown": []}
    for part in range(PARTS):
        gone = part_of == part
        words = {known[number] for number in np.flatnonzero(gone)}
        some = [row for row in captions if words & set(row[1])][:CAPTIONS_A_PART]
        texts = [" ".join(text) for _, text in some]
        without = [" ".join(NO_WORD if w in words else w for w in text) for _, text in some]
        owners += [owner for owner, _ in some]
        vectors_of["learned"].append(embedded(snapshot, texts, table))
        after = predicted(table, ids, vectors, gone)
        vectors_of["predicted"].append(embedded(snapshot, texts, after))
        vectors_of["unknown"].append(embedded(snapshot, without, table))
    return {
        "captions": len(owners),
        **{name: recalls(torch.cat(part), images, owners) for name, part in vectors_of.items()},
    }


def main() -> None:
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    data, file = sys.argv[1], Path(sys.argv[2])
    model = Path(sys.argv[3]) if len(sys.argv) == 4 else IN_THE_BOX
    snapshot = Snapshot.load(model)
    measured = {"data": Path(data).name, "word_vectors": file.name, "model": model.name}
    measured |= measure(snapshot, data, file)
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured)


if __name__ == "__main__":
    main()
