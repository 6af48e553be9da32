"""Two encoders, one space, one similarity (Sec. 2.1)."""

from collections.abc import Callable

from torch import Tensor, nn

from vsepp.encoders.architecture import Architecture
from vsepp.encoders.backbones import backbone
from vsepp.encoders.caption import BagOfWords, CaptionEncoder
from vsepp.encoders.image import ImageEncoder
from vsepp.equations.similarity import SIMILARITIES, inner_product
from vsepp.errors import WrongRequest
from vsepp.loading.batches import Batch

Similarity = Callable[[Tensor, Tensor], Tensor]


class JointEmbedding(nn.Module):
    """Images and captions as vectors of one space."""

    def __init__(
        self,
        image_encoder: ImageEncoder,
        caption_encoder: CaptionEncoder | BagOfWords,
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
            _caption_encoder(plan),
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


def _caption_encoder(plan: Architecture) -> CaptionEncoder | BagOfWords:
    if plan.caption_encoder == "bag":
        return BagOfWords(plan.num_words, plan.dim, plan.absolute)
    return CaptionEncoder(
        plan.num_words,
        plan.dim,
        plan.word_dim,
        project=plan.project_captions,
        absolute=plan.absolute,
        bidirectional=plan.bidirectional,
        pooling=plan.pooling,
        hidden=plan.hidden,
    )
