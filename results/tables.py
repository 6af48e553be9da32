"""Writes the README's tables from what was measured: python results/tables.py [--check]"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COLUMNS = ("r1", "r5", "r10", "median_rank")
HEAD = (
    "| {} | caption R@1 | R@5 | R@10 | Med r | image R@1 | R@5 | R@10 | Med r | rsum |\n|---|"
    + 9 * "---:|"
)


def main() -> None:
    readme = ROOT / "README.md"
    text = written = readme.read_text()
    for name, table in (
        ("demo", demo_table()),
        ("flickr8k", flickr8k_table()),
        ("ranking", ranking_table()),
    ):
        start, end = f"<!-- {name} table -->\n", f"<!-- /{name} table -->"
        before, _, rest = written.partition(start)
        written = f"{before}{start}\n{table}\n\n{end}{rest.partition(end)[2]}"
    if "--check" in sys.argv and written != text:
        sys.exit("README.md is not what results/tables.py makes of the results.")
    readme.write_text(written)


def demo_table() -> str:
    rows = json.loads((ROOT / "results" / "demo-seed0.json").read_text())["rows"]
    return "\n".join([HEAD.format("model"), *(row(entry["name"], [entry]) for entry in rows)])


def flickr8k_table() -> str:
    lines = [HEAD.format("model")]
    for name, recipe in (
        ("CCA (closed form)", "f8k-cca"),
        ("VSE0", "f8k-vse0-1c"),
        ("VSE++", "f8k-vse++-1c"),
    ):
        runs = json.loads((ROOT / "results" / f"{recipe}.json").read_text())["runs"]
        lines.append(row(name, list(runs.values())))
    return "\n".join(lines)


def row(name: str, results: list[dict[str, Any]]) -> str:
    cells = [
        figure([result[direction][column] for result in results])
        for direction in ("captions", "images")
        for column in COLUMNS
    ]
    return "| " + " | ".join((name, *cells, figure([r["rsum"] for r in results]))) + " |"


def figure(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def ranking_table() -> str:
    record = sorted((ROOT / "benchmarks" / "records").glob("*-ranking/record.json"))[-1]
    measured = json.loads(record.read_text())["measured"]
    low, high = measured["ours_to_product_spread"]
    return (
        "| way | time |\n|---|---|\n"
        "| the matrix product alone | 1 |\n"
        f"| `Retrieval.from_vectors` | {measured['ours_to_product']} ({low} to {high}, n = {measured['n']}) |\n"
        f"| the authors' release | {measured['release_to_ours'] * measured['ours_to_product']:.0f} |"
    )


if __name__ == "__main__":
    main()
