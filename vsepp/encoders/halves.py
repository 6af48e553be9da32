"""A net cut in two before one of its modules: a frozen part, whose output can be stored, and a part that is trained.

Both share the net's weights, and each skips the other's modules. So a net can be cut where one tensor passes from module to
module in the order in which they are registered, as in timm's nets of stages and vision transformers.
"""

from copy import copy
from typing import Any

import torch
from torch import Tensor, nn

from vsepp.errors import WrongRequest

# What timm's vision transformers compute between their modules, in methods: positions, and one vector of all.
AT_THE_START, AT_THE_END = "_pos_embed", "pool"


def _passed_on(maps: Tensor, *_: Any, **__: Any) -> Tensor:
    return maps


class _Skipped(nn.Module):
    def forward(self, maps: Tensor, *_: Any, **__: Any) -> Tensor:
        return maps


def cut_before(net: nn.Module, name: str, size: int) -> tuple[nn.Module, nn.Module]:
    """The modules before `name`, such as "stages.3", and those from it on; `size` is the side of the images."""
    first, second = _part(net, name, is_first=True), _part(net, name, is_first=False)
    weight = next(net.parameters(), torch.empty(0))
    image = torch.rand(1, 3, size, size).to(weight.device, weight.dtype)
    was_training = net.training
    net.eval()  # and with it the modules of both parts
    try:
        with torch.no_grad():
            both = second.eval()(first.eval()(image))
            fits = torch.allclose(both, net(image), atol=1e-4)
    except (RuntimeError, TypeError, ValueError) as error:
        raise _no_cut(net, name, str(error)) from error
    finally:
        net.train(was_training)
    if not fits:
        raise _no_cut(
            net,
            name,
            "its two parts, one after the other, compute other features than the whole net",
        )
    return first, second


def _part(net: nn.Module, name: str, is_first: bool) -> nn.Module:
    """A copy of the containers, not of the weights."""
    child, _, rest = name.partition(".")
    if child not in dict(net.named_children()):
        raise _no_cut(net, child, "there is no such module")
    part = copy(net)
    part._modules = {}
    outside = AT_THE_END if is_first else AT_THE_START
    if hasattr(type(part), outside):
        setattr(part, outside, _passed_on)
    skips = not is_first
    for key, module in net.named_children():
        if key == child:
            own = _part(module, rest, is_first) if rest else _Skipped() if is_first else module
            part._modules[key] = own
            skips = is_first
        else:
            part._modules[key] = _Skipped() if skips else module
    return part


def _no_cut(net: nn.Module, name: str, reason: str) -> WrongRequest:
    known = ", ".join(key for key, _ in net.named_children())
    return WrongRequest(
        f"The net cannot be cut before {name}: {reason}. Name one of its modules ({known}), or a part "
        "of one with a dot, such as stages.3."
    )
