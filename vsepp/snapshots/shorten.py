"""Shorter vectors with nearly the same inner products: the space's principal directions, and no others.

A rotation leaves inner products alone, and most of a space's directions carry next to nothing. Both
encoders end in a linear map or can be given one, so the rotation goes into W_f and W_g: the result is an
ordinary model of fewer dimensions, no slower, whose collections take a fraction of the room.
"""

from dataclasses import replace

import torch
from torch import Tensor

from vsepp.encoders.caption import GRUEncoder
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WrongRequest
from vsepp.snapshots.snapshot import Snapshot


def principal_directions(images: Tensor, captions: Tensor, dim: int) -> Tensor:
    """Of image vectors (N, D) and caption vectors (C, D), equally weighted -> (D, dim), orthonormal."""
    spreads = [part.double().T @ part.double() / len(part) for part in (images, captions)]
    directions: Tensor = torch.linalg.eigh(spreads[0] + spreads[1])[1]  # the smallest come first
    return directions[:, -dim:].flip(1)


def shortened(snapshot: Snapshot, images: Tensor, captions: Tensor, dim: int) -> Snapshot:
    """The model with a space of `dim` dimensions; the vectors are its own, of typical data."""
    _check(snapshot, dim)
    before, model = snapshot.architecture, snapshot.model
    plan = replace(before, dim=dim, hidden=before.hidden or before.dim, project_captions=True)
    directions = principal_directions(images.cpu(), captions.cpu(), dim)
    weights = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    _turn(weights, "image_encoder", directions)
    if "caption_encoder.linear.weight" not in weights:  # the GRU's states are the vectors
        weights["caption_encoder.linear.weight"] = torch.eye(before.dim)
        weights["caption_encoder.linear.bias"] = torch.zeros(before.dim)
    _turn(weights, "caption_encoder", directions)
    short = JointEmbedding.build(plan)
    short.load_state_dict(weights)
    return replace(snapshot, model=short.eval(), architecture=plan)


def _turn(weights: dict[str, Tensor], encoder: str, directions: Tensor) -> None:
    """Let an encoder's last linear map end in these directions (D, dim)."""
    for name in (f"{encoder}.linear.weight", f"{encoder}.linear.bias"):
        weights[name] = (directions.T @ weights[name].double()).float()


def _check(snapshot: Snapshot, dim: int) -> None:
    plan = snapshot.architecture
    if not 0 < dim <= plan.dim:
        raise WrongRequest(f"The space has {plan.dim} dimensions: keep 1 to {plan.dim}, not {dim}.")
    turnable = plan.similarity == "inner_product" and plan.normalize_images and not plan.absolute
    if not turnable or not isinstance(snapshot.model.caption_encoder, GRUEncoder):
        raise WrongRequest(
            "Only models of unit vectors and inner products, with a GRU for captions, can be "
            f"shortened: others depend on their axes or lengths (this one uses {plan.similarity})."
        )
