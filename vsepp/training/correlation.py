"""Learns W_f and W_g by canonical correlation (Sec. 2.1): in closed form, without negatives."""

import torch
from torch import Tensor

from vsepp.encoders.caption import BagOfWords
from vsepp.encoders.joint import ImageEncoder, JointEmbedding
from vsepp.equations.correlation import canonical_maps
from vsepp.equations.similarity import normalize
from vsepp.errors import WrongRequest
from vsepp.loading.batches import Pairs

PAIRS_AT_ONCE = 2048


@torch.no_grad()
def fit_by_correlation(model: JointEmbedding, pairs: Pairs, ridge: float = 0.01) -> Tensor:
    """Set the model's linear maps; returns the correlation of each dimension."""
    images, captions = model.image_encoder, model.caption_encoder
    assert isinstance(captions, BagOfWords)
    num_features, num_words = images.backbone.num_features, captions.words.num_embeddings
    dim, most = images.linear.out_features, min(num_features, num_words)
    if dim > most:
        raise WrongRequest(
            f"{num_features:,} features and {num_words:,} words have at most {most:,} correlations, "
            f"not {dim:,}: set model.dim={most} or less."
        )
    x_mean, y_mean, xx, yy, xy = _moments(images, num_words, pairs)
    x_map, y_map, strength = canonical_maps(xx, yy, xy, dim, ridge)
    # Directions that correlate more say more: each counts by its correlation.
    x_map, y_map = x_map * strength, y_map * strength
    images.linear.weight.copy_(x_map.T)
    images.linear.bias.copy_(-x_mean @ x_map)
    captions.words.weight.copy_(y_map)
    captions.bias.copy_(-y_mean @ y_map)
    return strength


def _moments(
    encoder: ImageEncoder, num_words: int, pairs: Pairs
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Means and covariances of features and bags of words over all pairs, in double precision."""
    num_features, count = encoder.backbone.num_features, len(pairs)
    x_sum = torch.zeros(num_features, dtype=torch.float64)
    y_sum = torch.zeros(num_words, dtype=torch.float64)
    xx = torch.zeros(num_features, num_features, dtype=torch.float64)
    yy = torch.zeros(num_words, num_words, dtype=torch.float64)
    xy = torch.zeros(num_features, num_words, dtype=torch.float64)
    for numbers, words, lengths in pairs.caption_batches(PAIRS_AT_ONCE):
        x = pairs.images.take(pairs.image_of_caption[numbers.numpy()]).cpu()
        x = (normalize(x) if encoder.normalize_features else x).double()
        y = _bags(words, lengths, num_words)
        x_sum += x.sum(0)
        y_sum += y.sum(0)
        xx += x.T @ x
        yy += y.T @ y
        xy += x.T @ y
    x_mean, y_mean = x_sum / count, y_sum / count
    return (
        x_mean,
        y_mean,
        xx / count - torch.outer(x_mean, x_mean),
        yy / count - torch.outer(y_mean, y_mean),
        xy / count - torch.outer(x_mean, y_mean),
    )


def _bags(words: Tensor, lengths: Tensor, num_words: int) -> Tensor:
    """Which share of each caption every word is (M, V)."""
    is_word = torch.arange(words.shape[1])[None, :] < lengths[:, None]
    shares = is_word.double() / lengths[:, None]
    return torch.zeros(len(words), num_words, dtype=torch.float64).scatter_add_(1, words, shares)
