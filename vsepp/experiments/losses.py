"""A loss by the name that a recipe gives it: ours, or one that another package offers."""

from vsepp.equations.losses import LOSSES, Loss
from vsepp.errors import WrongRequest
from vsepp.plugins import loaded, offered

GROUP = "vsepp.losses"  # functions of (scores, margin=..., negatives=...) -> one loss per pair


def loss_named(name: str) -> Loss:
    if name in LOSSES:
        return LOSSES[name]
    others = offered(GROUP)
    if name not in others:
        known = ", ".join([*LOSSES, *others])
        raise WrongRequest(f"There is no loss {name!r}. Known: {known}.")
    loss: Loss = loaded(GROUP, name)
    return loss
