"""Two encoders, one space, one similarity (Sec. 2.1); here the image encoder, phi and W_f (Eq. 1)."""

import math
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from vsepp.devices import autocast, speed_up
from vsepp.encoders.architecture import FEATURES, Architecture
from vsepp.encoders.caption import CaptionEncoder, caption_encoder
from vsepp.encoders.halves import cut_before
from vsepp.equations.similarity import SIMILARITIES, inner_product, normalize
from vsepp.errors import WrongRequest
from vsepp.loading.batches import Batch
from vsepp.plugins import loaded, offered

Similarity = Callable[[Tensor, Tensor], Tensor]
PLUGINS = "vsepp.backbones"  # entry points: functions of `weights` that return a Backbone
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Backbone(nn.Module):
    """A net, and the scaling of pixels that it expects."""

    mean: Tensor
    std: Tensor

    def __init__(
        self, net: nn.Module, num_features: int, mean: tuple[float, ...], std: tuple[float, ...]
    ) -> None:
        super().__init__()
        self.net = net
        self.num_features = num_features
        self.register_buffer("mean", 255 * torch.tensor(mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", 255 * torch.tensor(std).view(3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        # images (M, 3, S, S), values 0 to 255 -> features (M, D_phi)
        if images.dim() == 5:  # 10C: the mean over the crops of a picture (M, K, 3, S, S)
            crops = self(images.flatten(0, 1))
            mean: Tensor = crops.unflatten(0, images.shape[:2]).mean(1)
            return mean
        features: Tensor = self.net(self.scaled(images))
        return features

    def scaled(self, images: Tensor) -> Tensor:
        return (images.to(self.mean.dtype) - self.mean) / self.std


def backbone(name: str, weights: str = "none", size: int = 0) -> Backbone:
    """The net called `name`: "small", another package's, or any of timm's ("vgg19", "resnet152", ...).

    "features:4096" stands for a net that has run before, and passes its features on.
    `weights` is "none" (random), "timm" (downloaded by timm) or a file of weights. `size` is the
    side of its images, for nets that depend on it; 0: the size that it was trained with.
    """
    if name == "small":
        if weights != "none":
            raise WrongRequest(
                "The backbone small has no pretrained weights: leave model.weights at none."
            )
        return Backbone(small_net(), SMALL_FEATURES, IMAGENET_MEAN, IMAGENET_STD)
    if name.startswith(FEATURES):
        return Backbone(nn.Identity(), _feature_count(name), (0.0,) * 3, (1 / 255,) * 3)
    if name in offered(PLUGINS):
        theirs: Backbone = loaded(PLUGINS, name)(weights)
        return theirs
    from vsepp.encoders.backbones import timm_backbone  # which needs Backbone

    return timm_backbone(name, weights, size)


def _feature_count(name: str) -> int:
    count = name.removeprefix(FEATURES)
    if not count.isdecimal() or int(count) < 1:
        raise WrongRequest(
            f"The backbone {name!r} needs the length of its features: features:4096."
        )
    return int(count)


SMALL_FEATURES = 16 * 192


def small_net() -> nn.Sequential:
    """Three steps of convolution: learns from a few thousand pictures on a CPU, in minutes."""
    return nn.Sequential(
        *_convolution(3, 48, kernel=6, stride=4),
        *_convolution(48, 96, kernel=3, stride=2),
        *_convolution(96, 192, kernel=3, stride=2),
        GridPool(4),
        nn.Flatten(),
    )


class GridPool(nn.Module):
    """Means over a grid of cells, not over all: where a thing lies is part of what captions say."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, features: Tensor) -> Tensor:
        if features.shape[-1] == self.side:  # nothing to pool, and pooling is not free
            return features
        return nn.functional.adaptive_avg_pool2d(features, self.side)


def _convolution(before: int, after: int, kernel: int, stride: int) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(before, after, kernel, stride, padding=1, bias=False)
    return convolution, nn.BatchNorm2d(after), nn.ReLU(inplace=True)


class ImageEncoder(nn.Module):
    """f(i) = W_f phi(i): a backbone, frozen or fine-tuned, and a linear map.

    With `finetune_from`, only that module of the backbone and those after it are trained; `size` is the side of
    the images.
    """

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
        # In a tuple: as modules, their weights would be listed twice.
        self._halves: tuple[nn.Module, nn.Module] | None = None
        if finetune and finetune_from:
            self.cut_before(finetune_from, size)[1].requires_grad_(True)
        self.finetune = finetune
        self.fixed_statistics = fixed_statistics
        self.normalize = normalize  # Sec. 3: VSE0 keeps the image norm; it helped the baseline
        self.normalize_features = normalize_features  # differs from the paper: the release does so
        self.absolute = absolute  # Sec. 3.5: Order0
        self._compiled: Callable[[Tensor], Tensor] | None = None
        # differs from the paper: Eq. 1 has no bias, the release has one
        self.linear = nn.Linear(backbone.num_features, dim)
        bound = math.sqrt(6 / (backbone.num_features + dim))
        nn.init.uniform_(self.linear.weight, -bound, bound)
        nn.init.zeros_(self.linear.bias)

    @property
    def is_cut(self) -> bool:
        return self._halves is not None

    def cut_before(self, name: str, size: int) -> tuple[nn.Module, nn.Module]:
        """From now on, maps that go into this module of the net are accepted instead of images, too."""
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

    def use_fast_training(self, compiled: bool = False) -> None:
        """On a GPU, from now on and in training mode: channels last in memory, and compiled."""
        self._compiled = speed_up(self.backbone, compiled)

    def features(self, images: Tensor) -> Tensor:
        """phi(i)."""
        # images (M, 3, S, S) or (M, K, 3, S, S), or maps (M, C, H, W) or (M, L, C) -> features (M, D_phi)
        net = self._net()
        with (
            torch.set_grad_enabled(torch.is_grad_enabled() and self.finetune),
            autocast(images, is_wanted=self.training, on_cpu=True),
        ):
            features = net(images)
        return features.to(self.linear.weight.dtype)

    def _net(self) -> Callable[[Tensor], Tensor]:
        if self._halves:
            return self._run_halves
        return self._compiled if self._compiled and self.training else self.backbone

    def _run_halves(self, images: Tensor) -> Tensor:
        assert self._halves is not None
        if images.dim() == 5:  # 10C, as in `Backbone`
            crops = self._run_halves(images.flatten(0, 1))
            mean: Tensor = crops.unflatten(0, images.shape[:2]).mean(1)
            return mean
        first, second = self._halves
        if images.dim() == 4 and images.shape[1] == 3:  # pixels
            with torch.no_grad():
                images = first(self.backbone.scaled(images))
        features: Tensor = second(images.to(self.linear.weight.dtype))
        return features

    def forward(self, images: Tensor) -> Tensor:
        # images or maps as in `features`, or features (M, D_phi) -> vectors (M, D)
        are_features = images.dim() == 2
        features = images.to(self.linear.weight.dtype) if are_features else self.features(images)
        if self.normalize_features:
            features = normalize(features)
        vectors: Tensor = self.linear(features)
        if self.normalize:
            vectors = normalize(vectors)
        return vectors.abs() if self.absolute else vectors


def _fix_statistics(net: nn.Module) -> None:
    """Batch norms use the statistics that they were trained with, and nothing is dropped.

    All other modules stay in training mode: some of timm's (TinyViT, LeViT, EfficientFormer) cache what they
    compute from their weights in eval mode, and could not be trained in it.
    """
    for module in net.modules():
        drops = "Drop" in type(module).__name__ or bool(getattr(module, "drop_rate", False))
        if drops or isinstance(module, _NormBase):
            module.training = False  # not .eval(): the parts of a module are modules, too


class JointEmbedding(nn.Module):
    """Images and captions as vectors of one space."""

    def __init__(
        self,
        image_encoder: ImageEncoder,
        caption_encoder: CaptionEncoder,
        similarity: Similarity = inner_product,
    ) -> None:
        super().__init__()
        self.image_encoder = image_encoder
        self.caption_encoder = caption_encoder
        self.similarity = similarity

    @classmethod
    def build(
        cls,
        architecture: Architecture,
        weights: str = "none",
        finetune: bool = False,
        fixed_statistics: bool = False,
        finetune_from: str = "",
    ) -> "JointEmbedding":
        """A fresh model; what is not architecture concerns the image encoder's backbone."""
        plan = architecture
        if plan.similarity not in SIMILARITIES:
            known = ", ".join(SIMILARITIES)
            raise WrongRequest(f"There is no similarity {plan.similarity!r}. Known: {known}.")
        return cls(
            ImageEncoder(
                backbone(plan.backbone, weights, plan.size),
                plan.dim,
                finetune=finetune,
                fixed_statistics=fixed_statistics,
                normalize=plan.normalize_images,
                normalize_features=plan.normalize_features,
                absolute=plan.absolute,
                finetune_from=finetune_from,
                size=plan.size,
            ),
            caption_encoder(plan),
            SIMILARITIES[plan.similarity],
        )

    def embed_images(self, images: Tensor) -> Tensor:
        # images (M, 3, S, S) or (M, K, 3, S, S), or features (M, D_phi) -> vectors (M, D)
        vectors: Tensor = self.image_encoder(images)
        return vectors

    def embed_captions(self, words: Tensor, lengths: Tensor) -> Tensor:
        # words (M, L), lengths (M,) -> vectors (M, D)
        vectors: Tensor = self.caption_encoder(words, lengths)
        return vectors

    def forward(self, batch: Batch) -> Tensor:
        # M pairs -> scores (M, M), positives on the diagonal
        images = self.embed_images(batch.images)
        return self.similarity(images, self.embed_captions(batch.words, batch.lengths))
