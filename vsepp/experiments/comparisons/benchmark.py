"""Models and data -> measurements: what `vsepp evaluate`, `compare` and `audit` share."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from vsepp.encoders.architecture import CONFIG
from vsepp.equations.ranking import Recall
from vsepp.errors import WrongRequest
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.measurement import Extras, Measurement, measure_embeddings
from vsepp.evaluation.metrics.uncertainty import Spread, mean_of_seeds, spread
from vsepp.evaluation.reports.tables import Found, all_differences, probe_differences
from vsepp.evaluation.retrieval import Retrieval
from vsepp.experiments.comparisons.probing import Probing, probe_snapshot
from vsepp.experiments.comparisons.vectors import Data, embeddings_of, name_and_paths
from vsepp.experiments.provenance import circumstances, content_of_items, weights_of
from vsepp.snapshots.snapshot import Snapshot


@dataclass(frozen=True)
class Measured:
    """A model with all that is known of it; `spreads` where it was trained with several seeds."""

    embeddings: Embeddings
    result: Measurement
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    weights: Sequence[str] = ()  # short hashes, one for each seed; none of saved vectors


def measure_model(
    model: str,
    data: Data | None,
    protocol: str = "full",
    extras: Extras | None = None,
    probing: Probing | None = None,
    like: Embeddings | None = None,
) -> Measured:
    """Seeds of one model are averaged image by image; ranks and pages are those of the first.

    Photos and captions are in the order of `like`, the model that this one is compared with.
    """
    seeds = embeddings_of(model, data, like)
    results = [measure_embeddings(one, protocol, extras) for one in seeds]
    result = results[0]
    spreads: dict[str, Spread] = {}
    if len(results) > 1:
        result, spreads = _together(results)
    _, paths = name_and_paths(model)
    snapshots = [path for path in paths if (path / CONFIG).is_file()]
    if probing and probing.sources:
        if paths[0] not in snapshots:
            raise WrongRequest(f"{paths[0]}: probes need a model, not its vectors.")
        probes = probe_snapshot(Snapshot.load(paths[0]), probing, result.resamples)
        remarks = [*result.remarks, *probing.remarks]
        result = replace(result, probes=probes, remarks=remarks)
    return Measured(seeds[0], result, spreads, [weights_of(path) for path in snapshots])


def comparison(measured: Sequence[Measured], data: Data | None = None) -> dict[str, Any]:
    """All models, all differences and their provenance, as `vsepp compare --json` prints them."""
    check_same_queries(measured)
    results = [one.result for one in measured]
    differences = _rows(all_differences(results), "metric", "direction")
    of_probes = _rows(probe_differences(results), "source", "kind")
    spreads = {
        one.result.name: {name: asdict(found) for name, found in one.spreads.items()}
        for one in measured
        if one.spreads
    }
    models = [one.result.as_dict() | {"weights": one.weights} for one in measured]
    made_by = circumstances() | {"data": content_of_items(data.items) if data else ""}
    return {
        "models": models,
        "differences": differences,
        "probe_differences": of_probes,
        "spreads": spreads,
        "made_by": made_by,
    }


def _rows(differences: Mapping[tuple[str, str], Found], *keys: str) -> list[dict[str, Any]]:
    return [
        {
            "model": ours,
            "minus": theirs,
            **dict(zip(keys, key, strict=True)),
            **asdict(difference),
            "corrected_p_value": p_value,
        }
        for (ours, theirs), found in differences.items()
        for key, (difference, p_value) in found.items()
    ]


def check_same_queries(measured: Sequence[Measured]) -> None:
    """Paired tests compare query by query."""
    if len({one.result.name for one in measured}) < len(measured):
        raise WrongRequest(
            "Two models have the same name. Give them names: vsepp compare A=PATH B=PATH"
        )
    first = measured[0]
    for other in measured[1:]:
        ids = (
            (list(one.image_ids), list(one.caption_ids), one.owners.tolist())
            for one in (first.embeddings, other.embeddings)
        )
        if next(ids) != next(ids) or first.result.num_images != other.result.num_images:
            raise WrongRequest(
                f"{first.result.name} and {other.result.name} were not measured on the same queries "
                "in the same order: measure_model(..., like=the embeddings of the first)."
            )


def _together(results: Sequence[Measurement]) -> tuple[Measurement, dict[str, Spread]]:
    first = results[0]
    statistics, spreads = [], {}
    for number, one in enumerate(first.statistics):
        seeds = [result.statistics[number].per_image for result in results]
        statistics.append(replace(one, per_image=mean_of_seeds(seeds)))
        spreads[f"{one.direction} {one.name}"] = spread(seeds)
    folds = [_mean([r.folds[n] for r in results]) for n in range(len(first.folds))]
    remark = (
        f"the mean of {len(results)} seeds; median rank, correlations, judgements, probes and single "
        "queries are of the first."
    )
    together = replace(
        first,
        retrieval=_mean([result.retrieval for result in results]),
        folds=folds,
        statistics=statistics,
        remarks=[*first.remarks, remark],
    )
    return together, spreads


def _mean(seeds: Sequence[Retrieval]) -> Retrieval:
    """Of recalls and mean ranks; a median rank has an interval, and is of the first seed everywhere."""
    first = seeds[0]
    captions = Recall.mean([one.captions for one in seeds])
    images = Recall.mean([one.images for one in seeds])
    return replace(
        first,
        captions=replace(captions, median_rank=first.captions.median_rank),
        images=replace(images, median_rank=first.images.median_rank),
    )
