import pytest
import timm
import torch
from safetensors.torch import save_file

from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.backbones import backbone
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WorkFailed, WrongRequest
from vsepp.search.embedder import Embedder
from vsepp.snapshots.snapshot import Snapshot


def test_small_takes_pictures_of_any_size():
    net = backbone("small").eval()
    for size in (32, 64, 97, 224):
        assert net(torch.zeros(2, 3, size, size, dtype=torch.uint8)).shape == (2, net.num_features)


def test_pixels_are_scaled_as_the_net_expects():
    net = backbone("resnet18")
    assert torch.allclose(net.mean.flatten(), 255 * torch.tensor([0.485, 0.456, 0.406]))
    lite = backbone("tf_efficientnet_lite0")
    assert torch.allclose(lite.mean.flatten(), torch.full((3,), 127.5))


@pytest.mark.slow
def test_features_of_timms_nets_have_the_papers_width():
    """Sec. 3: 4,096 for VGG19's fc7 and 2,048 for ResNet152; the smaller siblings agree."""
    for name, width in (("vgg11", 4096), ("resnet50", 2048)):
        net = backbone(name).eval()
        with torch.no_grad():
            assert net(torch.zeros(1, 3, 224, 224)).shape == (1, width)
        assert net.num_features == width


def test_weights_by_name_in_order_or_not_at_all(tmp_path):
    source = timm.create_model("resnet18", num_classes=7)
    weights = source.state_dict()
    save_file(weights, tmp_path / "named.safetensors")
    renamed = {theirs(name): tensor for name, tensor in weights.items()}
    torch.save(renamed, tmp_path / "renamed.pth")
    torch.save(dict(list(renamed.items())[3:]), tmp_path / "shifted.pth")
    for file in ("named.safetensors", "renamed.pth"):
        net = backbone("resnet18", str(tmp_path / file)).net
        assert torch.equal(net.layer4[1].conv2.weight, source.layer4[1].conv2.weight)
    with pytest.raises(WrongRequest, match="neither by name nor in order"):
        backbone("resnet18", str(tmp_path / "shifted.pth"))
    torch.save({n: t.flatten() for n, t in weights.items()}, tmp_path / "cut.pth")
    with pytest.raises(WrongRequest, match=r"first difference at conv1\.weight"):
        backbone("resnet18", str(tmp_path / "cut.pth"))
    (tmp_path / "text.safetensors").write_text("no weights at all")
    with pytest.raises(WrongRequest, match="is not a file of weights"):
        backbone("resnet18", str(tmp_path / "text.safetensors"))
    with pytest.raises(WrongRequest, match=r"weights: .* does not exist"):
        backbone("resnet18", str(tmp_path / "nowhere.pth"))


def theirs(name):
    """As another library might call the same tensor."""
    return f"net.{name}".replace("layer", "stage_").replace("conv", "c").replace(".bn", ".norm_")


@pytest.mark.parametrize("rename", [theirs, lambda name: name], ids=["in order", "by name"])
def test_weights_of_the_papers_time_have_no_counters(tmp_path, rename):
    """torch has counted the batches of a batch norm since 0.4.1."""
    source = timm.create_model("resnet18", num_classes=7)
    weights = {rename(n): t for n, t in source.state_dict().items() if "num_batches" not in n}
    torch.save(weights, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    net = backbone("resnet18", str(tmp_path / "old.pth")).net
    assert torch.equal(net.layer4[1].bn2.running_var, source.layer4[1].bn2.running_var)
    assert torch.equal(net.layer4[1].bn2.bias, source.layer4[1].bn2.bias)
    assert net.bn1.num_batches_tracked == 0


def test_counters_that_are_there_are_taken_along(tmp_path):
    source = timm.create_model("resnet18", num_classes=7)
    source.layer4[1].bn2.num_batches_tracked += 3
    torch.save({theirs(n): t for n, t in source.state_dict().items()}, tmp_path / "new.pth")
    assert (
        backbone("resnet18", str(tmp_path / "new.pth")).net.layer4[1].bn2.num_batches_tracked == 3
    )


def exchanged(names, a, b):
    return [b if name == a else a if name == b else name for name in names]


@pytest.mark.parametrize(
    "order",
    [
        lambda names: exchanged(names, "bn1.weight", "bn1.bias"),  # of one layer
        lambda names: exchanged(names, "bn1.bias", "layer1.0.bn1.bias"),  # of two layers
        lambda names: exchanged(names, "layer1.0.conv1.weight", "layer1.1.conv1.weight"),
        lambda names: sorted(names, key=lambda name: name.startswith("layer1.0")),  # counts down
    ],
)
def test_tensors_of_one_shape_are_not_taken_in_a_wrong_order(tmp_path, order):
    source = timm.create_model("resnet18", num_classes=7)
    weights = {n: t for n, t in source.state_dict().items() if "num_batches" not in n}
    torch.save({theirs(n): weights[n] for n in order(list(weights))}, tmp_path / "mixed.pth")
    with pytest.raises(WrongRequest, match="neither by name nor in order"):
        backbone("resnet18", str(tmp_path / "mixed.pth"))


def test_names_that_say_nothing_and_files_without_an_order_are_refused(tmp_path):
    weights = timm.create_model("resnet18", num_classes=7).state_dict()
    numbered = {f"tensor_{number}": tensor for number, tensor in enumerate(weights.values())}
    torch.save(numbered, tmp_path / "numbered.pth")
    with pytest.raises(WrongRequest, match=r"conv1\.weight.*where the file has tensor_0"):
        backbone("resnet18", str(tmp_path / "numbered.pth"))
    save_file({theirs(n): t for n, t in weights.items()}, tmp_path / "foreign.safetensors")
    with pytest.raises(WrongRequest, match="does not keep their order"):
        backbone("resnet18", str(tmp_path / "foreign.safetensors"))


def test_a_file_that_runs_code_is_refused(tmp_path):
    class Payload:
        def __reduce__(self):
            return (tmp_path / "it_ran").touch, ()

    torch.save({"weights": Payload()}, tmp_path / "hostile.pth")
    with pytest.raises(WrongRequest, match=r"hostile\.pth is refused: it names"):
        backbone("resnet18", str(tmp_path / "hostile.pth"))
    assert not (tmp_path / "it_ran").exists()


def test_a_name_may_carry_the_tag_of_its_weights():
    assert backbone("resnet18.a1_in1k").num_features == 512


def test_unknown_names_get_suggestions():
    with pytest.raises(WrongRequest, match="resnet50"):
        backbone("resnet_hundred")
    with pytest.raises(WrongRequest, match="no pretrained weights"):
        backbone("small", "timm")


def test_no_network_is_explained(monkeypatch):
    def offline(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr("timm.create_model", offline)
    with pytest.raises(WorkFailed, match=r"model\.weights=FILE"):
        backbone("resnet18", "timm")


@pytest.mark.parametrize(
    ("asked", "close"),
    [
        ("ViT-B-32", "vit_base_patch32_224"),
        ("siglip2", "vit_base_patch16_siglip_224"),
        ("efficientnet-lite0", "tf_efficientnet_lite0"),
        ("hf-hub:timm/resnet50", "resnet50"),
        ("vgg", "vgg19"),
    ],
)
def test_a_name_that_is_not_timms_finds_its_neighbours(asked, close):
    with pytest.raises(WrongRequest, match=f"There is no backbone.*{close}"):
        backbone(asked)


# ---- class token and mean


@pytest.mark.parametrize(
    ("name", "size", "num_others", "num_patches"),
    [("test_vit", 160, 1, 100), ("vit_small_patch14_reg4_dinov2", 28, 5, 4)],
)
def test_features_may_be_the_class_token_and_the_mean_of_the_patches(
    name, size, num_others, num_patches
):
    """Registers are no patches."""
    torch.manual_seed(0)
    net = backbone(f"{name}+mean", "none", size).eval()
    images = torch.randint(0, 256, (2, 3, size, size), dtype=torch.uint8)
    with torch.no_grad():
        tokens = net.net.forward_features(net.scaled(images))
        features = net(images)
    assert tokens.shape[1] == num_others + num_patches
    assert features.shape[1] == net.num_features == 2 * tokens.shape[2]
    expected = torch.cat([tokens[:, 0], tokens[:, num_others:].mean(1)], dim=1)
    torch.testing.assert_close(features, expected)


@pytest.mark.parametrize(
    "name", ["resnet18", "test_vit2", "cait_xxs24_224", "deit_tiny_distilled_patch16_224"]
)
def test_nets_whose_features_are_no_class_token_are_refused(name):
    with pytest.raises(WrongRequest, match=f"features of {name} are not its class token alone"):
        backbone(f"{name}+mean")


@pytest.mark.parametrize("pooling", ["max", ""])
def test_another_pooling_is_refused(pooling):
    with pytest.raises(WrongRequest, match=rf"no pooling '{pooling}', only test_vit\+mean"):
        backbone(f"test_vit+{pooling}")


def test_a_net_of_ours_has_no_class_token_either():
    with pytest.raises(WrongRequest, match=r"There is no backbone 'small\+mean'"):
        backbone("small+mean")


@pytest.mark.slow
def test_a_snapshot_of_both_is_saved_loaded_and_exported(tmp_path):
    torch.manual_seed(0)
    vocabulary = Vocabulary.learn(["a red ball"])
    keys = {"backbone": "test_vit+mean", "size": 160, "resize": 160, "dim": 16, "word_dim": 8}
    plan = Architecture(num_words=len(vocabulary), **keys)
    before = Snapshot(JointEmbedding.build(plan).eval(), vocabulary, plan)
    loaded = Snapshot.load(before.save(tmp_path))
    assert loaded.architecture == plan
    images = torch.randint(0, 256, (3, 3, 160, 160), dtype=torch.uint8)
    with torch.no_grad():
        expected = before.model.embed_images(images)
        assert torch.equal(loaded.model.embed_images(images), expected)
    graph = Embedder(tmp_path).embed_pixels(images.numpy())
    torch.testing.assert_close(torch.from_numpy(graph), expected, rtol=0, atol=1e-5)
