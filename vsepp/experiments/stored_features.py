"""Features instead of images: whether those of a collection fit a net, and those of a frozen net."""

import torch
from torch import nn

from vsepp.data.captioned import CaptionedImages, FeatureRow, have_features
from vsepp.devices import ALONE, Processes, inference_batch_size
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.backbones import fingerprint
from vsepp.encoders.halves import cut_before
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WrongRequest
from vsepp.experiments.recipe import Recipe
from vsepp.loading.batches import Pairs

SAME = ("backbone", "size", "resize", "square", "crops")


def has_maps(data: CaptionedImages) -> bool:
    """Feature maps of the first part of a net, instead of features."""
    first = data.items[0].path
    return isinstance(first, FeatureRow) and first.table.rows.ndim > 2


def module_of_maps(data: CaptionedImages) -> str:
    """The module whose input a collection's maps are; empty without maps."""
    return str((data.origin or {}).get("before", "")) if has_maps(data) else ""


def learns_from_features_alone(recipe: Recipe, data: CaptionedImages) -> bool:
    """If the recipe asks for it, or if the net that made them is unknown and so cannot be saved."""
    if recipe.model.backbone.startswith("features"):
        return True
    is_fixed = not recipe.model.finetune and not recipe.crops_at_random
    return have_features(data.items) and data.origin is None and is_fixed


def length_of_features(data: CaptionedImages) -> int:
    first = data.items[0].path
    if not isinstance(first, FeatureRow):
        raise WrongRequest(
            f"{data.name} contains images, and the recipe trains on features. Compute them first: "
            "vsepp precompute DATA --backbone NAME --into DIR"
        )
    return int(first.table.rows.shape[1])


def check_that_features_fit(
    architecture: Architecture,
    model: JointEmbedding,
    data: CaptionedImages,
    finetune_from: str = "",
) -> None:
    """Training on features of another net, or of other crops, would not fail, only be wrong."""
    if not have_features(data.items):
        if architecture.takes_features:
            length_of_features(data)
        return
    backbone = model.image_encoder.backbone
    if has_maps(data):
        _check_that_maps_fit(data, finetune_from)
    elif length_of_features(data) != backbone.num_features:
        raise WrongRequest(
            f"{data.name} does not fit {architecture.backbone}, which has {backbone.num_features:,}. "
            "To train on these features without a backbone: vsepp train features --data ..."
        )
    if model.image_encoder.finetune and not architecture.takes_features and not has_maps(data):
        raise WrongRequest(
            f"{data.name} cannot fine-tune {architecture.backbone}, which needs the images. "
            "Use the images, or freeze the backbone: --set model.finetune=false"
        )
    if data.origin and not architecture.takes_features:
        net: nn.Module = backbone
        if has_maps(data):
            net, _ = cut_before(backbone.net, finetune_from, architecture.size)
        mine = {key: getattr(architecture, key) for key in SAME} | {"weights": fingerprint(net)}
        other = {key: (data.origin.get(key), mine[key]) for key in mine}
        differ = [f"{k} {had}, not {has}" for k, (had, has) in other.items() if had != has]
        if differ:
            raise WrongRequest(
                f"{data.name} was computed by another backbone: {'; '.join(differ)}."
            )


def check_that_crops_are_fixed(
    recipe: Recipe, architecture: Architecture, data: CaptionedImages
) -> None:
    """Random crops would be left out without a word: those of features were cut long ago."""
    if have_features(data.items) and recipe.crops_at_random and not architecture.takes_features:
        raise WrongRequest(
            f"{data.name} was computed from fixed crops, and data.crop is {recipe.data.crop}. "
            "Use the images, or fixed crops: --set data.crop=center"
        )


@torch.no_grad()
def with_features(model: JointEmbedding, pairs: Pairs, processes: Processes = ALONE) -> Pairs:
    """Sec. 3: the features of fixed crops by a frozen net are computed once and reused."""
    if pairs.images.are_features:
        return pairs
    device = next(model.parameters()).device
    model.eval()
    batches = pairs.image_batches(inference_batch_size(device), processes.share)
    features = torch.cat([model.image_encoder.features(batch.to(device)) for batch in batches])
    return pairs.with_features(processes.gathered(features, len(pairs.items)))


def _check_that_maps_fit(data: CaptionedImages, finetune_from: str) -> None:
    before = module_of_maps(data)
    if not before or before != finetune_from:
        raise WrongRequest(
            f"{data.name} contains the input of {before or 'an unknown module'} of a backbone. Only that module "
            f"and those after it can be trained on it: --set model.finetune=true --set model.finetune_from={before or 'MODULE'}"
        )
