"""Loads weight files of other libraries into a backbone: by name, or in order."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from vsepp.errors import WrongRequest
from vsepp.pickles import read_torch_file, reading

# Batches seen by a batch norm: counted since torch 0.4.1, and without effect.
COUNTER = "num_batches_tracked"
Weights = dict[str, Tensor]


def load_weights(net: nn.Module, file: Path) -> None:
    """Load a file by name, or in order where another library named the tensors."""
    if not file.is_file():
        raise WrongRequest(f'weights: {file} does not exist. Use "none", "timm" or a file.')
    found, wanted = _read(file), net.state_dict()
    if not set(_without_counters(wanted)) <= set(found):
        found = _in_order(found, wanted, file)
    found = {name: found[name] for name in wanted if name in found}
    for name, tensor in found.items():
        if tensor.shape != wanted[name].shape:
            raise _does_not_fit(file, name, wanted[name])
    net.load_state_dict(found, strict=False)


def _read(file: Path) -> Weights:
    """Tensors only: no code of the file is run."""
    if file.suffix != ".safetensors":
        with reading(file, "a file of weights, by torch.save or safetensors") as stream:
            content = read_torch_file(stream)
            content = content.get("state_dict", content)
            return {name: part for name, part in content.items() if isinstance(part, Tensor)}
    try:
        return load_file(file)
    except SafetensorError as error:
        raise WrongRequest(f"weights: {file} is not a file of weights: {error}") from error


def _in_order(found: Weights, wanted: Weights, file: Path) -> Weights:
    """The file's tensors under the net's names.

    Many tensors of a net are of one shape, so shapes alone prove nothing: each must be of the same kind
    (weight, bias, running_mean ...), those of one layer must lie in one layer, and layers must be
    counted upwards, as they are not in a file that was sorted by name.
    """
    if file.suffix == ".safetensors":
        raise WrongRequest(
            f"{file} does not fit: its tensors have other names than the net's, and a safetensors file "
            "does not keep their order. Use a file of torch.save, or name the tensors as timm does."
        )
    # A classifier's tensors come last and are not wanted; so zip() may stop early.
    names = list(_without_counters(wanted))
    pairs = list(zip(names, _without_counters(found), strict=False))
    if len(pairs) < len(names):
        raise _does_not_fit(file, names[len(pairs)], wanted[names[len(pairs)]])
    layers: dict[str, str] = {}
    for (name, theirs), previous in zip(pairs, ["", *(pair[1] for pair in pairs)], strict=False):
        (layer, _, kind), (their_layer, _, their_kind) = (
            name.rpartition("."),
            theirs.rpartition("."),
        )
        is_same_layer = layers.setdefault(layer, their_layer) == their_layer
        if kind != their_kind or not is_same_layer or _counts_down(previous, theirs):
            raise _does_not_fit(file, name, wanted[name], f", where the file has {theirs}")
    if len(set(layers.values())) < len(layers):
        raise _does_not_fit(file, *next(iter(wanted.items())), ", as its layers have other bounds")
    counters = {f"{layer}.{COUNTER}": f"{theirs}.{COUNTER}" for layer, theirs in layers.items()}
    taken = dict(pairs) | {name: theirs for name, theirs in counters.items() if theirs in found}
    return {name: found[theirs] for name, theirs in taken.items()}


def _counts_down(previous: str, name: str) -> bool:
    """Whether, where the two names begin to differ, there is a number and then a smaller one."""
    for before, now in zip(previous.split("."), name.split("."), strict=False):
        if before != now:
            return before.isdecimal() and now.isdecimal() and int(now) < int(before)
    return False


def _without_counters(weights: Weights) -> Weights:
    return {name: tensor for name, tensor in weights.items() if not name.endswith(COUNTER)}


def _does_not_fit(file: Path, name: str, tensor: Tensor, why: str = "") -> WrongRequest:
    return WrongRequest(
        f"{file} does not fit: its tensors match the net neither by name nor in order "
        f"(first difference at {name}, shape {tuple(tensor.shape)}{why})."
    )
