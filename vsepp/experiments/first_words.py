"""Words that begin with what they mean elsewhere (`model.word_vectors`)."""

from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from torch import nn

from vsepp.data.tokens import Vocabulary, read_word_vectors
from vsepp.errors import WrongRequest


@torch.no_grad()
def begin_with(file: str, words: nn.Embedding, vocabulary: Vocabulary) -> None:
    """Put a file's vectors into the table of words; those that it lacks stay random."""
    path = Path(file).expanduser()
    known = vocabulary.words()
    found = read_word_vectors(path, known, words.embedding_dim)
    if not found:
        raise WrongRequest(
            f"{path} has none of the {len(known):,} words, such as {', '.join(known[:5])}. "
            "Is it a file of another language?"
        )
    vectors = torch.from_numpy(np.stack(list(found.values())))
    # A file's vectors have any length (spaCy's 48 on average, for Flickr8k's words; random ones 1). Long
    # ones dwarf the words that stay random, and learned less (benchmarks/LOG.md). So all are scaled by
    # one number to the length of random ones; how long one is beside another stays.
    vectors *= _typical_length(words.weight) / _typical_length(vectors)
    ids = torch.tensor([vocabulary.tokenizer.token_to_id(word) for word in found])
    words.weight[ids] = vectors
    Console(stderr=True).print(f"{path.name}: vectors for {len(found):,} of {len(known):,} words.")


def _typical_length(vectors: torch.Tensor) -> float:
    return float(vectors.square().sum(dim=1).mean().sqrt())
