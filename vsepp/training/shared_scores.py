"""The scores of a batch that several processes share: each scores its own pairs against those of all.

A loss asks, for each pair, about its row and its column (Eqs. 5 and 6). So hard negatives are found among the
pairs of all processes, and nobody computes a score that none of its own pairs needs.
"""

from typing import TypeGuard, cast

import torch
from torch import Tensor, nn

from vsepp.devices import Processes
from vsepp.encoders.caption import CaptionEncoder
from vsepp.encoders.joint import JointEmbedding, Similarity
from vsepp.loading.batches import Batch
from vsepp.training.fast_captions import StepByStep


def scores_of_batch(model: nn.Module, batch: Batch, processes: Processes) -> Tensor:
    """The scores of all pairs of the batch, as far as this process needs them."""
    # m pairs here, M in all -> (M, M)
    if processes.number == 1:
        scores: Tensor = model(batch)
        return scores
    joint = cast(JointEmbedding, model)  # or whatever has two encoders and a similarity
    with processes.as_one_batch():  # as short as can be: it looks at every call of torch
        images = joint.embed_images(batch.images)
    captions = _captions(joint, batch, processes)
    return scores_of_all(images, captions, len(batch.image_ids), joint.similarity, processes)


def _captions(joint: JointEmbedding, batch: Batch, processes: Processes) -> Tensor:
    """On a CPU without a step spent on padding, as `fast.py` does it in one process."""
    encoder = joint.caption_encoder
    is_plain = batch.words.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
    if not is_plain or not len(batch) or not _is_the_papers(encoder):
        with processes.as_one_batch():
            return joint.embed_captions(batch.words, batch.lengths)
    order = batch.lengths.argsort(descending=True, stable=True)
    lengths = batch.lengths[order]
    way = StepByStep(encoder)
    vectors = way.finish(way.begin(batch.words[order], lengths, int(lengths[0])))
    return vectors[order.argsort()]


def _is_the_papers(encoder: nn.Module) -> TypeGuard[CaptionEncoder]:
    return isinstance(encoder, CaptionEncoder) and encoder.is_the_papers


def scores_of_all(
    images: Tensor, captions: Tensor, num_pairs: int, similarity: Similarity, processes: Processes
) -> Tensor:
    """Scores of `num_pairs` pairs; rows and columns of other processes' pairs alone are zero."""
    # images (m, D) and captions (m, D) of this process -> (M, M)
    if processes.number == 1:
        return similarity(images, captions)
    mine = processes.share(num_pairs)
    both = torch.cat((images, captions), dim=1)  # one message instead of two
    images, captions = processes.gathered(both, num_pairs).chunk(2, dim=1)
    above, below = slice(0, mine.start), slice(mine.stop, num_pairs)
    own_rows = similarity(images[mine], captions)
    scores = own_rows.new_zeros(num_pairs, num_pairs)
    scores[mine] = own_rows
    scores[above, mine] = similarity(images[above], captions[mine])
    scores[below, mine] = similarity(images[below], captions[mine])
    return scores
