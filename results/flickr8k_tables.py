"""The tables of docs/results.md, from results/f8k/."""

import json
import statistics
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent
MODELS = {
    "vse0": "VSE0",
    "vse0-norms": "VSE0, both norms",
    "vse++": "VSE++",
    "order0": "Order0",
    "order++": "Order++",
}
CROPS = {"1c": "1C", "10c": "10C", "rc": "RC", "rc-ft": "RC, fine-tuned"}
SUM, MAX = "grid-vse0-norms-1c", "grid-vse++-1c"
LOSSES = {"sum": "sum of hinges", "max": "max of hinges"}
RECALLS = tuple((side, k) for side in ("captions", "images") for k in ("r1", "r5", "r10"))


def result(name: str) -> dict[str, Any] | None:
    file = RESULTS / "f8k" / f"{name}.json"
    return json.loads(file.read_text()) if file.exists() else None


def tests(found: dict[str, Any] | None) -> list[dict[str, Any]]:
    """What the seeds scored on the test split, those that got so far."""
    runs = found["runs"].values() if found else ()
    return [run["test"] for run in runs if "test" in run]


def rsum(name: str) -> str:
    found = result(name)
    if found is None:
        return "not run"
    scores = [test["rsum"] for test in tests(found)]
    stopped = len(found["runs"]) - len(scores)
    words = [mean(scores)] if scores else []
    return "; ".join([*words, *([f"{stopped} of {len(found['runs'])} stopped"] if stopped else [])])


def mean(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def grid_table() -> str:
    """rsum at a glance."""
    lines = ["| | " + " | ".join(CROPS.values()) + " |", "|---|" + len(CROPS) * "---:|"]
    for model, words in MODELS.items():
        cells = (rsum(f"grid-{model}-{crop}") for crop in CROPS)
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def rows_table() -> str:
    """Every recall, and the command beside it."""
    lines = [
        "| model | seeds | caption R@1 | R@5 | R@10 | image R@1 | R@5 | R@10 | rsum | command |",
        "|---|---:|" + 7 * "---:|" + "---|",
    ]
    names = [
        (f"grid-{model}-{crop}", f"{MODELS[model]}, {CROPS[crop]}")
        for crop in CROPS
        for model in MODELS
    ]
    for name, words in names:
        found = result(name)
        if found and tests(found):
            lines.append(row_of_all_recalls(words, tests(found), found["command"]))
    return "\n".join([*lines, *rows_of_the_best()])


def rows_of_the_best() -> list[str]:
    best = best_model()
    train, shorten = best["command"].split(" && ")[:2]
    long, short = best["runs"].items()
    shipped = best["in the box"]
    start, fine_tune, average, turn, _ = shipped["commands"]
    return [
        row_of_all_recalls(f"the best recipe, {long[0]}", list(long[1].values()), train),
        row_of_all_recalls(f"each of them shortened, {short[0]}", list(short[1].values()), shorten),
        *(
            row_of_all_recalls(f"{words}, {dims}", [shipped["runs"][dims]], command)
            for words, dims, command in (
                ("the mean of three of one start", long[0], f"{start} && {fine_tune} && {average}"),
                ("shortened: the earlier model in the box", short[0], turn),
            )
        ),
    ]


def best_model() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / "f8k-best.json").read_text())
    return found


def row_of_all_recalls(words: str, runs: list[dict[str, Any]], command: str) -> str:
    cells = [mean([run[side][k] for run in runs]) for side, k in RECALLS]
    cells.append(mean([run["rsum"] for run in runs]))
    return f"| {words} | {len(runs)} | {' | '.join(cells)} | `{command}` |"


def batch_table() -> str:
    rows = [
        (f"{size:,}", f"batch-batch-{size}", f"batch_size={size}")
        for size in (32, 64, 256, 512, 1024)
    ]
    return both_losses("pairs of a batch", [*rows[:2], ("128", "", ""), *rows[2:]])


def errors_table() -> str:
    rows = [
        (f"{share} %", f"errors-errors-{share}", f"data.wrong_captions={share / 100}")
        for share in (10, 20, 30, 40)
    ]
    return both_losses("captions dealt to wrong pictures", [("0 %", "", ""), *rows])


def both_losses(head: str, rows: list[tuple[str, str, str]]) -> str:
    """A row for each setting; that without a name is the grid's own."""
    lines = [f"| {head} | {' | '.join(LOSSES.values())} | added |", "|---|---:|---:|---|"]
    for words, name, change in rows:
        cells = (rsum(f"{name}-{way}") for way in LOSSES) if name else (rsum(SUM), rsum(MAX))
        added = f"`--set {change}`" if change else ""
        lines.append(f"| {words} | {' | '.join(cells)} | {added} |")
    return "\n".join(lines)


def spectrum_table() -> str:
    rows = [
        ("the hardest negative (max of hinges)", MAX),
        *((f"the {k} hardest", f"spectrum-hardest-{k}") for k in (2, 4, 16)),
        *((f"soft maximum, temperature {t}", f"spectrum-soft-{t}") for t in (0.02, 0.1, 0.5)),
        ("all (sum of hinges)", SUM),
    ]
    return one_column("negatives that count", rows)


def choices_table() -> str:
    rows = [
        ("max of hinges from the first step", MAX),
        ("one epoch of the sum first", "curriculum-sum-first-1"),
        ("three epochs of the sum first", "curriculum-sum-first-3"),
        ("RC: two epochs of the sum first", "grid-vse++-rc"),
        ("RC: max of hinges from the first step", "curriculum-max-alone-rc"),
        ("RC, then fine-tuned: two epochs of the sum first", "grid-vse++-rc-ft"),
        ("RC, then fine-tuned: max of hinges from the first step", "curriculum-max-alone-rc-ft"),
        ("captions of the same picture count as negatives", "choices-unmasked"),
        ("as the paper's text has it (`fidelity=paper`)", "choices-text"),
    ]
    return one_column("VSE++, 1C where nothing else is said", rows)


def hardest_table() -> str:
    found = result("hardest")
    assert found
    lines = ["| M | observed | 1 - .9^(M - 1) | median percentile |\n|---:|---:|---:|---:|"]
    for row in found["sizes"]:
        shares = f"{row['in_the_hardest_tenth']:.3f} | {row['expected']:.3f}"
        lines.append(f"| {row['batch']} | {shares} | {row['median_percentile']:.1f} |")
    return "\n".join(lines)


def own_table() -> str:
    """What a few hundred pictures of one's own are good for, from the box and from scratch."""
    found = json.loads((RESULTS / "own-pictures.json").read_text())
    ways = {"box": "from the box", "box with its net": "its net, too", "scratch": "from scratch"}
    lines = [
        f"| pictures to learn from | the box as it is | {' | '.join(ways.values())} |",
        "|---|" + 4 * "---:|",
    ]
    for world, size in dict.fromkeys((row["world"], row["size"]) for row in found["rows"]):
        of_size = [r for r in found["rows"] if (r["world"], r["size"]) == (world, size)]
        scores = ([r["test"]["rsum"] for r in of_size if r["way"] == way] for way in ways)
        cells = [mean(values) if values else "not run" for values in scores]
        before = f"{found['before'][world]['rsum']:.1f}"
        lines.append(f"| {size:,} {world} | {before} | {' | '.join(cells)} |")
    return "\n".join(lines)


def one_column(head: str, rows: list[tuple[str, str]]) -> str:
    lines = [f"| {head} | rsum | command |", "|---|---:|---|"]
    for words, name in rows:
        found = result(name)
        command = f"`{found['command']}`" if found else ""
        lines.append(f"| {words} | {rsum(name)} | {command} |")
    return "\n".join(lines)


TABLES = {
    "grid": grid_table,
    "rows": rows_table,
    "batch": batch_table,
    "errors": errors_table,
    "spectrum": spectrum_table,
    "choices": choices_table,
    "hardest": hardest_table,
    "own pictures": own_table,
}
