"""The image encoder: phi and W_f (Eq. 1)."""

import math
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from vsepp.devices import CompiledForOneShape, Precision, half_precision
from vsepp.encoders.backbones import Backbone
from vsepp.encoders.halves import cut_before

# differs from the release: a vector of zeros stays one, there it turns into NaN
EPSILON = 1e-6


def normalized(vectors: Tensor) -> Tensor:
    """Onto the unit hypersphere (Sec. 2.1)."""
    return nn.functional.normalize(vectors, dim=-1, eps=EPSILON)


def _fix_statistics(net: nn.Module) -> None:
    """Batch norms go by the statistics of the data that they were learned on, and nothing is dropped.

    All other modules may train: some of timm's (TinyViT, LeViT, EfficientFormer) keep what they make of
    their weights while they are in eval mode, and could not be trained in it.
    """
    for module in net.modules():
        drops = "Drop" in type(module).__name__ or bool(getattr(module, "drop_rate", False))
        if drops or isinstance(module, _NormBase):
            module.training = False  # its own flag alone: the parts of a module are modules, too


class ImageEncoder(nn.Module):
    """f(i) = W_f phi(i): a backbone, frozen or fine-tuned, and a linear map."""

    def __init__(
        self,
        backbone: Backbone,
        dim: int,
        finetune: bool = False,
        fixed_statistics: bool = False,
        normalize: bool = True,
        normalize_features: bool = True,
        absolute: bool = False,
        finetune_from: str = "",
        size: int = 224,
    ) -> None:
        super().__init__()
        self.backbone = backbone.requires_grad_(finetune and not finetune_from)
        # The net's first part stays as it is; in a tuple, or the weights would be listed twice.
        self._halves: tuple[nn.Module, nn.Module] | None = None
        if finetune and finetune_from:
            self.cut_before(finetune_from, size)[1].requires_grad_(True)
        self.finetune = finetune
        self.fixed_statistics = fixed_statistics
        self.normalize = normalize  # Sec. 3: VSE0 keeps the image norm; it helped the baseline
        self.normalize_features = normalize_features  # differs from the paper: the release does so
        self.absolute = absolute  # Sec. 3.5: Order0
        self._compiled: Callable[[Tensor], Tensor] | None = None
        self._learns_in_halves = False
        # differs from the paper: Eq. 1 has no bias, the release has one
        self.linear = nn.Linear(backbone.num_features, dim)
        bound = math.sqrt(6 / (backbone.num_features + dim))
        nn.init.uniform_(self.linear.weight, -bound, bound)
        nn.init.zeros_(self.linear.bias)

    def cut_before(self, name: str, size: int) -> tuple[nn.Module, nn.Module]:
        """From now on, maps that go into this module of the net are taken in place of pictures, too."""
        self._halves = cut_before(self.backbone.net, name, size)
        return self._halves

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if not self.finetune:
            self.backbone.eval()
            return self
        net: nn.Module = self.backbone
        if self._halves:
            self.backbone.eval()
            net = self._halves[1].train(mode)
        if self.fixed_statistics:
            # differs from the release: there they train until an epoch's first validation
            _fix_statistics(net)
        return self

    def learn_quickly(self, precision: Precision, compiled: bool = False) -> None:
        """On a GPU, from now on: in this precision, and compiled, but only in training mode."""
        if next(self.backbone.parameters(), torch.empty(0)).is_cuda:
            self.backbone.to(memory_format=torch.channels_last)
            self._learns_in_halves = precision == "bf16"
            if compiled:
                self._compiled = CompiledForOneShape(self.backbone)

    def features(self, images: Tensor) -> Tensor:
        """phi(i)."""
        # images (M, 3, S, S) or (M, K, 3, S, S), or the frozen part's maps (M, C, H, W) -> features (M, D_phi)
        if self._halves:
            return self._features_of_halves(images, *self._halves)
        net = self._compiled if self._compiled and self.training else self.backbone
        with (
            torch.set_grad_enabled(torch.is_grad_enabled() and self.finetune),
            half_precision(self._learns_in_halves and self.training),
        ):
            features = net(images)
        return features.to(self.linear.weight.dtype)

    def _features_of_halves(self, images: Tensor, frozen: nn.Module, learns: nn.Module) -> Tensor:
        if images.shape[-3] == 3:  # pixels
            with torch.no_grad():
                images = frozen(self.backbone.scaled(images))
        features: Tensor = learns(images)
        return features

    def forward(self, images: Tensor) -> Tensor:
        # images, maps as in `features`, or features (M, D_phi) made before -> vectors (M, D)
        made_before = images.dim() == 2
        features = images.to(self.linear.weight.dtype) if made_before else self.features(images)
        if self.normalize_features:
            features = normalized(features)
        vectors: Tensor = self.linear(features)
        if self.normalize:
            vectors = normalized(vectors)
        return vectors.abs() if self.absolute else vectors
