"""The tables of docs/evaluation.md, from what `vsepp compare --json` printed (results/evaluation)."""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
COLUMNS = (
    ("R@1", "captions"),
    ("R@10", "captions"),
    ("R@1", "images"),
    ("R@10", "images"),
    ("rsum", "both"),
)
HEAD = ("caption R@1", "caption R@10", "image R@1", "image R@10", "rsum")
TAUS = (("experts", "tau_c"), ("experts", "spearman"), ("crowd", "tau_b"), ("crowd", "spearman"))


def compared() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ROOT / "results/evaluation/flickr8k.json").read_text())
    return content


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---|" + (len(head) - 1) * "---:|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def cell(one: dict[str, float], digits: int = 1) -> str:
    return f"{one['value']:.{digits}f} [{one['low']:.{digits}f}, {one['high']:.{digits}f}]"


def retrieval_table() -> str:
    rows = [
        [model["name"], *(cell(model["metrics"][way][name]) for name, way in COLUMNS)]
        for model in compared()["models"]
    ]
    return table(["", *HEAD], rows)


def differences_table() -> str:
    """rsum and image R@1 of every pair."""
    rows = []
    for one in compared()["differences"]:
        if (one["metric"], one["direction"]) in (("rsum", "both"), ("R@1", "images")):
            name = "rsum" if one["metric"] == "rsum" else "image R@1"
            interval = one["interval"]
            rows.append(
                [
                    f"{one['model']} minus {one['minus']}, {name}",
                    f"{interval['value']:+.1f} [{interval['low']:+.1f}, {interval['high']:+.1f}]",
                    f"{one['corrected_p_value']:.4f}",
                    f"{one['visible']:.1f}",
                    f"{one['photos_for_one_point']:,}",
                ]
            )
    return table(["", "difference", "p", "visible with 1,000 photos", "photos for one point"], rows)


def judgement_table() -> str:
    models = compared()["models"]
    rows = [
        [model["name"], *(cell(model["judgements"][who]["model"][tau], 3) for who, tau in TAUS)]
        for model in models
    ]
    overlap = (models[0]["judgements"][who]["word overlap"][tau] for who, tau in TAUS)
    rows.append(["overlap of words with the photo's captions", *(cell(one, 3) for one in overlap)])
    # until 0.2.0 it was 100, and not written down
    resamples = models[0]["judgements"]["experts"].get("resamples", 100)
    taus = table(["", "experts, tau-c", "experts, rho", "crowd, tau-b", "crowd, rho"], rows)
    return f"{taus}\n\nEach interval: {resamples:,} resamples of the photos."


def probe_table() -> str:
    models = compared()["models"]
    rows, known = [], True
    for source, kinds in models[0]["probes"].items():
        for kind, first in kinds.items():
            known = known and "chance" in first
            about = [f"{first['probes']:,}", f"{first['chance']:.1f}"] if known else []
            cells = (cell(model["probes"][source][kind]) for model in models)
            rows.append([f"{kind}, {source}", *about, *cells])
    about = ["probes", "chance"] if known else []
    return table(["", *about, *(model["name"] for model in models)], rows)


def speed_table() -> str:
    (file,) = sorted((ROOT / "benchmarks/records").glob("*-yardstick/record.json"))[-1:]
    found = json.loads(file.read_text())["measured"]
    bootstraps = found["bootstrap_to_evaluation"]
    rows = [
        [
            "10,000 bootstrap resamples, beside one evaluation",
            f"{min(bootstraps)} to {max(bootstraps)} times as long",
        ]
    ]
    if "eccv_theirs_seconds" in found:
        rows += [
            [
                f"ECCV Caption's evaluator from vectors, {found['eccv_metrics']} figures",
                f"{found['eccv_theirs_seconds']} s; alone, from sorted lists: {found['eccv_theirs_alone_seconds']} s",
            ],
            [
                "ours from vectors, the same figures",
                f"{median(found['eccv_ours_seconds'])} s; alone, from scores: {median(found['eccv_ours_alone_seconds'])} s",
            ],
            [
                "ratios",
                f"from vectors {found['eccv_theirs_to_ours']}, alone {found['eccv_theirs_to_ours_alone']}, "
                f"theirs alone to ours from vectors {found['eccv_theirs_alone_to_ours_from_vectors']}",
            ],
            ["largest difference of the figures", f"{found['eccv_largest_difference']:.0e}"],
        ]
    if "command" in found:
        rows.append([f"`{found['command']}`", f"{found['command_seconds']} s"])
    return table(["", "measured"], rows)


TABLES: dict[str, Callable[[], str]] = {
    "retrieval": retrieval_table,
    "differences": differences_table,
    "judgement": judgement_table,
    "probes": probe_table,
    "speed": speed_table,
}
