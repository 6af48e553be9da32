"""A recipe that is solved, not trained: Sec. 2.1's canonical correlation."""

import time
from pathlib import Path

import torch

from vsepp.data.captioned import CaptionedImages
from vsepp.devices import prepare
from vsepp.errors import WrongRequest
from vsepp.evaluation.retrieval import evaluate
from vsepp.experiments.progress.run_folder import MetricsLog, Run, has_something_to_resume
from vsepp.experiments.provenance import fingerprint, notes_of
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.run import set_up
from vsepp.snapshots.snapshot import Snapshot
from vsepp.training.correlation import fit_by_correlation
from vsepp.training.loop import Epoch


def solve(recipe: Recipe, data: CaptionedImages, into: Path) -> Run:
    """One pass over the pairs, one decomposition; the snapshot is like any other."""
    has_something_to_resume(into, resume=False)
    if recipe.model.caption_encoder != "bag" or recipe.model.finetune or recipe.crops_at_random:
        raise WrongRequest(
            "Correlation is solved over fixed features and bags of words: set "
            "model.caption_encoder=bag, model.finetune=false and data.crop=center or ten."
        )
    started = time.perf_counter()
    device = torch.device("cpu")
    prepare(device)
    setup = set_up(recipe, data, device)
    correlations = fit_by_correlation(setup.model, setup.learned, recipe.ridge)
    result = evaluate(setup.model, setup.validation)
    seconds = time.perf_counter() - started
    with MetricsLog(into, recipe.batch_size) as log:
        mean = float(1 - correlations.mean())  # what is not correlated is the loss
        log.epoch(Epoch(1, 1, 0.0, mean, len(setup.learned), seconds), 1, result, is_best=True)
    notes = {
        **notes_of(data, fingerprint(recipe, data)),
        "validation_rsum": round(result.rsum, 1),
        "recipe": recipe.as_dict(),
    }
    Snapshot(setup.model, setup.vocabulary, setup.architecture, notes).save(into, recipe.graphs)
    return Run(into, 1, result)
