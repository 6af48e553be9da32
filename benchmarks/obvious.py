"""The loop that one writes first: a dataset item by item, tokenised on the fly, padded batches."""

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import numpy as np
import torch
from timing import DEVICE
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from vsepp.data.tokens import Vocabulary
from vsepp.encoders.joint import JointEmbedding
from vsepp.equations.losses import max_of_hinges
from vsepp.loading.batches import Batch, Pairs

Item = tuple[Tensor, list[int], int]
TotalLoss = Callable[[JointEmbedding, Batch], Tensor]  # the sum over all pairs


class CaptionDataset(Dataset[Item]):
    def __init__(self, pairs: Pairs, vocabulary: Vocabulary) -> None:
        self.captions = [caption for item in pairs.items for caption in item.captions]
        self.image_of_caption = pairs.image_of_caption.tolist()
        self.features = torch.cat(list(pairs.image_batches(1024)))
        self.vocabulary = vocabulary

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, number: int) -> Item:
        image = self.image_of_caption[number]
        return self.features[image], self.vocabulary.encode([self.captions[number]])[0], image


def collate(items: list[Item]) -> Batch:
    images, captions, ids = zip(*items, strict=True)
    lengths = torch.tensor([len(caption) for caption in captions])
    words = torch.zeros(len(captions), int(lengths.max()), dtype=torch.long)
    for row, caption in enumerate(captions):
        words[row, : len(caption)] = torch.tensor(caption)
    return Batch(torch.stack(images), words, lengths, torch.tensor(ids))


def train(
    model: JointEmbedding, dataset: CaptionDataset, batch_size: int, total_loss: TotalLoss, rate: float
) -> Iterator[float]:  # fmt: skip
    """Epoch after epoch in the order of `Pairs.batches`; reports every loss per pair."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    is_gpu = DEVICE.type == "cuda"
    model.train()
    for epoch in range(1_000):
        order = np.random.default_rng((0, epoch)).permutation(len(dataset))
        batches = np.split(order, range(batch_size, len(order), batch_size))
        loader = DataLoader(
            dataset,
            batch_sampler=[numbers.tolist() for numbers in batches],
            collate_fn=collate,
            num_workers=min(8, os.cpu_count() or 1) if is_gpu else 0,
            pin_memory=is_gpu,
        )
        for batch in loader:
            total = total_loss(model, batch.to(DEVICE))
            optimizer.zero_grad()
            total.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            optimizer.step()
            yield total.item() / len(batch)


def hardest_negatives(model: JointEmbedding, batch: Batch) -> Tensor:
    return max_of_hinges(model(batch)).sum()


def hardest_negatives_by_a_peer() -> TotalLoss | None:
    """The same loss from pytorch-metric-learning, where it is installed."""
    if find_spec("pytorch_metric_learning") is None:
        return None
    from pytorch_metric_learning import distances, losses, miners, reducers

    distance = distances.DotProductSimilarity(normalize_embeddings=False)
    triplets = losses.TripletMarginLoss(0.2, distance=distance, reducer=reducers.SumReducer())
    miner = miners.BatchHardMiner(distance=distance)

    def total(model: JointEmbedding, batch: Batch) -> Tensor:
        images = model.embed_images(batch.images)
        captions = model.embed_captions(batch.words, batch.lengths)
        pairs = torch.arange(len(batch), device=images.device)
        own = pairs.clone()  # the same tensor would mean: the same embeddings, and no positives
        to_captions = triplets(images, pairs, miner(images, pairs, captions, own), captions, own)
        to_images = triplets(captions, pairs, miner(captions, pairs, images, own), images, own)
        both: Tensor = to_captions + to_images
        return both

    return total
