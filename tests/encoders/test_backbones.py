import pytest
import timm
import torch
from safetensors.torch import save_file

from vsepp.encoders.backbones import backbone
from vsepp.errors import WorkFailed, WrongRequest


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
    renamed = {f"layer_{number}": tensor for number, tensor in enumerate(weights.values())}
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
    with pytest.raises(WrongRequest, match="there is no file"):
        backbone("resnet18", str(tmp_path / "nowhere.pth"))


def test_a_file_that_runs_code_is_refused(tmp_path):
    class Payload:
        def __reduce__(self):
            return (tmp_path / "it_ran").touch, ()

    torch.save({"weights": Payload()}, tmp_path / "hostile.pth")
    with pytest.raises(WrongRequest, match="Weights only load failed"):
        backbone("resnet18", str(tmp_path / "hostile.pth"))
    assert not (tmp_path / "it_ran").exists()


def test_a_name_may_carry_the_tag_of_its_weights():
    assert backbone("resnet18.a1_in1k").num_features == 512


def test_unknown_names_get_suggestions():
    with pytest.raises(WrongRequest, match="resnet50"):
        backbone("resnet_hundred")
    with pytest.raises(WrongRequest, match="from scratch"):
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
