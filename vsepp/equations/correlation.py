"""Canonical correlation analysis in closed form (Sec. 2.1): the linear maps that correlate most."""

import torch
from torch import Tensor


def canonical_maps(
    xx: Tensor, yy: Tensor, xy: Tensor, dim: int, ridge: float = 0.01
) -> tuple[Tensor, Tensor, Tensor]:
    """Maps of both sides onto `dim` pairs of directions, and how strongly each pair correlates.

    `ridge` is added to the variances, as a share of their mean: without it, directions that hardly
    vary would correlate by chance.
    """
    # covariances (X, X), (Y, Y), (X, Y) -> maps (X, D), (Y, D), correlations (D,)
    x_root, y_root = (torch.linalg.cholesky(_ridged(matrix, ridge)) for matrix in (xx, yy))
    # Cxx^-1/2 Cxy Cyy^-1/2, whose singular vectors are the directions
    half = torch.linalg.solve_triangular(x_root, xy, upper=False)
    whitened = torch.linalg.solve_triangular(y_root, half.T, upper=False).T
    left, correlations, right = torch.linalg.svd(whitened, full_matrices=False)
    x_map = torch.linalg.solve_triangular(x_root.T, left[:, :dim], upper=True)
    y_map = torch.linalg.solve_triangular(y_root.T, right.T[:, :dim], upper=True)
    return x_map, y_map, correlations[:dim]


def _ridged(covariance: Tensor, ridge: float) -> Tensor:
    share = ridge * covariance.diagonal().mean()
    eye = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    return covariance + share * eye
