import pytest
import torch

from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.equations.similarity import normalize
from vsepp.errors import WrongRequest
from vsepp.search.embedder import Embedder
from vsepp.snapshots.snapshot import Snapshot
from vsepp.snapshots.surgery import principal_directions, reduce_dimensions, resize_images


def snapshot(**design):
    torch.manual_seed(0)
    vocabulary = Vocabulary.learn(["a red ball on a blue box", "two green cubes"])
    keys = {"size": 32, "resize": 32, "dim": 24, "word_dim": 8, **design}
    plan = Architecture(num_words=len(vocabulary), **keys)
    return Snapshot(JointEmbedding.build(plan).eval(), vocabulary, plan)


@torch.no_grad()
def vectors_of(model, seed=0):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (40, 3, 32, 32), dtype=torch.uint8, generator=generator)
    words = torch.randint(4, 13, (60, 6), generator=generator)
    lengths = torch.randint(1, 7, (60,), generator=generator)
    return model.embed_images(images), model.embed_captions(words, lengths)


def test_directions_are_those_of_the_largest_spread():
    images = torch.tensor([[3.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    directions = principal_directions(images, images, 2)
    expected = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(directions.abs(), expected)


@pytest.mark.parametrize(
    "design",
    [{}, {"project_captions": True}, {"pooling": "max"}, {"hidden": 40}, {"bidirectional": True}],
)
def test_with_all_directions_no_score_changes(design):
    long = snapshot(**design)
    before = vectors_of(long.model)
    after = vectors_of(reduce_dimensions(long, *before, 24).model)
    torch.testing.assert_close(after[0] @ after[1].T, before[0] @ before[1].T, rtol=0, atol=1e-5)


def test_a_short_vector_is_the_long_one_seen_from_its_principal_directions():
    long = snapshot()
    images, captions = vectors_of(long.model)
    short = reduce_dimensions(long, images, captions, 5)
    assert (short.architecture.dim, short.architecture.hidden) == (5, 24)
    turned = principal_directions(images, captions, 5).float()
    for ours, vectors in zip(vectors_of(short.model), (images, captions), strict=True):
        torch.testing.assert_close(ours, normalize(vectors @ turned), rtol=0, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_vectors_may_come_from_a_gpu():
    here, there = snapshot(), snapshot()
    vectors = vectors_of(here.model)
    there.model.cuda()
    expected = reduce_dimensions(here, *vectors, 5).model.state_dict()
    found = reduce_dimensions(there, *(part.cuda() for part in vectors), 5).model.state_dict()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor)


@pytest.mark.slow
def test_a_short_snapshot_is_saved_and_used_like_any(tmp_path):
    long = snapshot()
    short = reduce_dimensions(long, *vectors_of(long.model), 5)
    embedder = Embedder(short.save(tmp_path / "short"))
    expected = Snapshot.load(tmp_path / "short").model
    vectors = embedder.embed_texts(["a red ball"])
    words = torch.tensor(short.vocabulary.encode(["a red ball"]))
    ours = expected.embed_captions(words, torch.tensor([words.shape[1]]))
    assert vectors.shape == (1, 5)
    torch.testing.assert_close(torch.from_numpy(vectors), ours.detach(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("design", "dim", "message"),
    [
        ({}, 25, "keep 1 to 24, not 25"),
        ({}, 0, "keep 1 to 24"),
        ({"similarity": "order_similarity", "absolute": True}, 5, "Only models with unit vectors"),
        ({"normalize_images": False}, 5, "Only models with unit vectors"),
        ({"caption_encoder": "bag"}, 5, "and a GRU can be shortened"),
    ],
)
def test_what_cannot_be_shortened_is_said(design, dim, message):
    long = snapshot(**design)
    with pytest.raises(WrongRequest, match=message):
        reduce_dimensions(long, *vectors_of(long.model), dim)


def test_a_transformer_for_smaller_images_sees_nearly_the_same():
    made_for = snapshot(backbone="test_vit", size=160, resize=160)
    small = resize_images(made_for, 128)
    assert (small.architecture.size, small.architecture.resize) == (128, 128)
    positions = [
        one.model.image_encoder.backbone.net.pos_embed.shape[1] for one in (made_for, small)
    ]
    assert positions == [101, 65]
    again = resize_images(resize_images(made_for, 320), 160).model.state_dict()
    before = made_for.model.state_dict()
    name = "image_encoder.backbone.net.pos_embed"
    assert torch.nn.functional.cosine_similarity(again[name], before[name], dim=-1).mean() > 0.9
    for key in before.keys() - {name}:
        assert torch.equal(again[key], before[key])


def test_a_net_of_one_size_alone_says_so():
    with pytest.raises(WrongRequest, match="does not accept images of 96"):
        resize_images(snapshot(backbone="mixer_s32_224", size=224, resize=224), 96)
    with pytest.raises(WrongRequest, match="not 0"):
        resize_images(snapshot(), 0)
    with pytest.raises(WrongRequest, match="not 1,000,000"):
        resize_images(snapshot(), 10**6)
