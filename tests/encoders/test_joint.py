import pytest
import torch

from vsepp.encoders.architecture import Architecture
from vsepp.encoders.caption import GRUEncoder
from vsepp.encoders.joint import JointEmbedding
from vsepp.equations.similarity import normalize
from vsepp.errors import WrongRequest
from vsepp.loading.batches import Batch

PLAN = {"num_words": 20, "size": 32, "resize": 32, "dim": 16, "word_dim": 8}


def build(finetune=False, **keys):
    torch.manual_seed(0)
    return JointEmbedding.build(Architecture(**PLAN, **keys), finetune=finetune)


def batch(num_pairs=4):
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (num_pairs, 3, 32, 32), dtype=torch.uint8, generator=generator)
    words = torch.randint(4, 20, (num_pairs, 6), generator=generator)
    lengths = torch.tensor([6, 3, 1, 5][:num_pairs])
    words[torch.arange(6) >= lengths[:, None]] = 0
    return Batch(images, words, lengths, torch.arange(num_pairs))


def test_scores_are_cosines():
    scores = build()(batch())
    assert scores.shape == (4, 4)
    assert (scores.abs() <= 1 + 1e-6).all()


@pytest.mark.parametrize(
    ("keys", "image_norm_is_one", "is_positive"),
    [
        ({"normalize_images": False}, False, False),  # VSE0
        ({}, True, False),  # VSE++
        ({"similarity": "order_similarity", "absolute": True}, True, True),  # Order0
        ({"similarity": "order_similarity"}, True, False),  # Order++
    ],
)
def test_the_papers_four_models(keys, image_norm_is_one, is_positive):
    model, pairs = build(**keys).eval(), batch()
    images = model.embed_images(pairs.images)
    captions = model.embed_captions(pairs.words, pairs.lengths)
    ones = torch.ones(4)
    assert torch.allclose(images.norm(dim=1), ones, atol=1e-5) == image_norm_is_one
    assert torch.allclose(captions.norm(dim=1), ones, atol=1e-5)
    assert bool((images >= 0).all() and (captions >= 0).all()) == is_positive


def test_a_vector_of_zeros_does_not_become_nan():
    zeros = torch.zeros(1, 4, requires_grad=True)
    normalize(zeros).sum().backward()
    assert torch.isfinite(zeros.grad).all()
    assert normalize(zeros).tolist() == [[0, 0, 0, 0]]


def test_padding_has_no_say():
    encoder = GRUEncoder(20, 16, 8)
    words = torch.tensor([[5, 6, 7]])
    longer = torch.tensor([[5, 6, 7, 0, 0, 0]])
    assert torch.allclose(encoder(words, torch.tensor([3])), encoder(longer, torch.tensor([3])))


def test_the_caption_vector_is_the_last_state_of_the_gru():
    encoder = GRUEncoder(20, 16, 8)
    words = torch.tensor([[5, 6, 7]])
    _, last = encoder.gru(encoder.words(words))
    assert torch.allclose(encoder(words, torch.tensor([3])), normalize(last[0]))


def test_w_g_is_there_when_asked_for():
    assert build().caption_encoder.linear is None
    assert build(project_captions=True).caption_encoder.linear.weight.shape == (16, 16)


def test_a_frozen_backbone_does_not_move():
    model = build(finetune=False).train()
    before = {
        name: tensor.clone() for name, tensor in model.image_encoder.backbone.state_dict().items()
    }
    model(batch()).sum().backward()
    after = model.image_encoder.backbone.state_dict()
    assert all(
        torch.equal(before[name], after[name]) for name in before
    )  # batch-norm statistics, too
    assert all(p.grad is None for p in model.image_encoder.backbone.parameters())
    assert model.image_encoder.linear.weight.grad is not None


def test_a_fine_tuned_backbone_moves():
    model = build(finetune=True).train()
    model(batch()).sum().backward()
    assert all(p.grad is not None for p in model.image_encoder.backbone.parameters())


def test_features_made_before_give_the_same_vectors():
    model, pairs = build().eval(), batch()
    features = model.image_encoder.features(pairs.images)
    assert torch.allclose(model.embed_images(features), model.embed_images(pairs.images))


def test_an_unknown_similarity_names_the_known_ones():
    with pytest.raises(WrongRequest, match="order_similarity_rooted"):
        build(similarity="cosine")
