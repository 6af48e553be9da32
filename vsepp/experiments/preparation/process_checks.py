"""Checks that several processes can share the batches of a run."""

import hashlib
from collections.abc import Sequence
from typing import Any

from vsepp.data.captioned import CaptionedImage
from vsepp.devices import Processes
from vsepp.errors import WrongRequest
from vsepp.experiments.recipe import Recipe


def check_that_every_process_has_a_pair(recipe: Recipe, processes: Processes) -> None:
    if processes.number > recipe.batch_size:
        raise WrongRequest(
            f"{processes.number} processes cannot share batches of {recipe.batch_size} pairs: some would "
            f"never get one. Start fewer (--nproc-per-node), or use larger batches: "
            f"--set batch_size={processes.number}"
        )


def check_that_processes_agree(
    recipe: Recipe,
    learned: Sequence[CaptionedImage],
    held_out: Sequence[CaptionedImage],
    processes: Processes,
) -> None:
    """A process that sees other data would spoil the training without an error."""
    facts: dict[str, Any] = {
        f"the recipe's {key}": value for key, value in recipe.as_dict().items()
    }
    facts["the pictures to learn from"] = _digest_of(learned)
    facts["the pictures to validate on"] = _digest_of(held_out)
    processes.agree(facts)


def _digest_of(items: Sequence[CaptionedImage]) -> str:
    digest = hashlib.sha256()
    for item in items:
        digest.update("\n".join((item.key, *item.captions, "")).encode())
    return f"{len(items):,} ({digest.hexdigest()[:8]})"
