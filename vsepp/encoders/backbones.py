"""timm's nets as backbones, with weights of theirs, of a file or none (Sec. 3)."""

import hashlib
import re
import socket
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from torch import Tensor, nn

from vsepp.encoders.joint import IMAGENET_MEAN as IMAGENET_MEAN  # for backbones of other packages
from vsepp.encoders.joint import IMAGENET_STD as IMAGENET_STD
from vsepp.encoders.joint import Backbone as Backbone
from vsepp.encoders.joint import backbone as backbone
from vsepp.encoders.net_weights import load_weights
from vsepp.errors import WorkFailed, WrongRequest

MEAN = "mean"  # vit_small_patch14_dinov2+mean
PORTS, TIMEOUT = {"https": 443, "http": 80}, 5.0  # seconds


def timm_backbone(name: str, weights: str, size: int) -> Backbone:
    import timm
    from timm.data import resolve_model_data_config

    asked = name
    name, plus, pooling = asked.partition("+")
    if plus and pooling != MEAN:
        raise WrongRequest(f"{asked}: there is no pooling {pooling!r}, only {name}+{MEAN}.")
    if name.partition(".")[0] not in timm.list_models():
        close = _names_like(name, timm.list_models())
        raise WrongRequest(
            f"There is no backbone {asked!r}. Use small, or one of timm's"
            + (f", such as {', '.join(close)}." if close else ": timm.list_models() lists them.")
        )
    if weights == "timm":
        # differs from the release: the features of its 1C and 10C rows came from Caffe's VGG19
        net = _downloaded(name)
    else:
        net = timm.create_model(name, num_classes=0)
        if weights != "none":
            load_weights(net, Path(weights))
    _adapt_to_size(net, name, size)
    # On two CPU cores this makes EfficientNet-Lite0 twice as fast, VGG19 and ResNet152 faster by 10 to 20 %.
    net.to(memory_format=torch.channels_last)
    scaling = resolve_model_data_config(net)
    # pre-logits may be wider than the last feature map: VGG19's fc7 has 4,096 of them
    num_features: Any = getattr(net, "head_hidden_size", None) or net.num_features
    if plus:
        _pool_class_and_mean(net, name)
        num_features *= 2
    return Backbone(net, int(num_features), scaling["mean"], scaling["std"])


def _pool_class_and_mean(net: Any, name: str) -> None:
    """Both what the class token says of an image and the mean of its patches, as DINOv2 was evaluated."""
    has_class_token = getattr(net, "global_pool", "") == "token" and hasattr(type(net), "pool")
    num_others = getattr(net, "num_prefix_tokens", 0)  # the class token, and registers

    def pool(tokens: Tensor, *_: Any, **__: Any) -> Tensor:
        return torch.cat([tokens[:, 0], tokens[:, num_others:].mean(1)], dim=1)

    if has_class_token:
        net.pool = pool
        features = net.forward_head(torch.zeros(1, num_others + 1, net.num_features))
    if not has_class_token or features.shape != (1, 2 * net.num_features):
        raise WrongRequest(
            f"The features of {name} are not its class token alone, to which +{MEAN} could add the mean of "
            f"its patches. Leave +{MEAN} out."
        )


def _names_like(name: str, known: list[str]) -> list[str]:
    """Up to eight nets with the words of a name that is not among them, such as ViT-B-32 or siglip2."""
    sides = {"b": "base", "l": "large", "s": "small", "h": "huge", "g": "giant"}
    said = re.findall(r"[a-z]+|\d+", name.lower())
    words = [sides.get(word, word) for word in said]
    for wanted in (words, [word for word in words if len(word) > 2 and word.isalpha()]):
        found = [other for other in known if all(word in other for word in wanted)]
        if found and wanted:
            return sorted(found, key=len)[:8]
    return get_close_matches("_".join(words), known, 8, 0.5)


def _adapt_to_size(net: Any, name: str, size: int) -> None:
    """Transformers are built for one image size; most can be given another."""
    made_for = net.pretrained_cfg["input_size"][-1]
    if not size or size == made_for or not net.pretrained_cfg.get("fixed_input_size"):
        return
    try:
        set_input_size(net, size)
        was_training = net.training
        with torch.no_grad():
            net.eval()(torch.zeros(1, 3, size, size))
        net.train(was_training)
    except Exception as error:  # whatever a net may raise at a size that is not its own
        raise WrongRequest(
            f"{name} does not accept images of {size} x {size} pixels ({error}). Use the size that it "
            f"was trained with: --set model.size={made_for} --set model.resize={made_for}"
        ) from error


def set_input_size(net: Any, size: int) -> None:
    """Interpolates the positions of a vision transformer; other nets take any size, or none but their own."""
    if hasattr(net, "set_input_size"):
        net.set_input_size(img_size=(size, size))


def accept_other_sizes(net: Any) -> None:
    """From now on, a vision transformer interpolates its positions for images of other sizes (`data.crop_size`)."""
    if getattr(net, "dynamic_img_size", True):  # it does so already, or has no such positions
        return
    from timm.layers import Format

    net.dynamic_img_size = True
    embedding = net.patch_embed
    embedding.strict_img_size, embedding.flatten = False, False
    embedding.output_fmt = Format.NHWC


def fingerprint(net: nn.Module) -> str:
    """A short name for these very weights."""
    digest = hashlib.sha256()
    for tensor in net.state_dict().values():
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def _downloaded(name: str) -> nn.Module:
    import timm

    advice = "Without a network, give a file: --set model.weights=FILE"
    place = _hub_that_does_not_answer(name)
    if place:
        raise WorkFailed(
            f"{place} does not answer; timm downloads the weights of {name} from there. {advice}"
        )
    try:
        net: nn.Module = timm.create_model(name, pretrained=True, num_classes=0)
    except Exception as error:  # whatever a network, a hub or a cache may raise
        raise WorkFailed(
            f"timm could not download the weights of {name}: {error}\n{advice}"
        ) from error
    return net


def _hub_that_does_not_answer(name: str) -> str:
    """Its address, where weights must come from there; the hub's own client tries for a minute."""
    import timm
    from huggingface_hub import constants, try_to_load_from_cache

    hub = urlsplit(constants.ENDPOINT)
    source = getattr(timm.get_pretrained_cfg(name), "hf_hub_id", None)
    if not source or getproxies().get(hub.scheme):  # a proxy knows what can be reached
        return ""
    files = "model.safetensors", "pytorch_model.bin"
    if any(isinstance(try_to_load_from_cache(source, file), str) for file in files):
        return ""
    try:
        socket.create_connection((hub.hostname, hub.port or PORTS[hub.scheme]), TIMEOUT).close()
    except OSError:
        return constants.ENDPOINT
    return ""
