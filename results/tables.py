"""Writes the tables of the docs from what was measured: python results/tables.py [--check]"""

import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evaluation_tables import TABLES as EVALUATION
from flickr8k_tables import TABLES as FLICKR8K
from flickr8k_tables import best_model, result, tests

ROOT = Path(__file__).parents[1]
KILLED = {
    "index-folder": "kills of `vsepp index` of a folder",
    "index-shards": "of shards",
    "index-prune": "with `--prune`",
    "index-ray": "on Ray",
    "train": "kills of `vsepp train`",
    "train-graphs": "while it writes a snapshot's graphs",
}
NETS = {"small": "a small net at 64 pixels", "box": "the earlier model in the box"}
COLUMNS = ("r1", "r5", "r10", "median_rank")
HEAD = (
    "| {} | caption R@1 | R@5 | R@10 | Med r | image R@1 | R@5 | R@10 | Med r | rsum |\n|---|"
    + 9 * "---:|"
)


def main() -> None:
    for name, tables in DOCS.items():
        file = ROOT / name
        text = written = file.read_text()
        for table, make in tables.items():
            start, end = f"<!-- {table} table -->\n", f"<!-- /{table} table -->"
            before, found, rest = written.partition(start)
            assert found, f"{name} has no place for the table {table}"
            written = f"{before}{start}\n{make()}\n\n{end}{rest.partition(end)[2]}"
        if "--check" not in sys.argv:
            file.write_text(written)
        elif written != text:
            sys.exit(f"{name} is not what results/tables.py makes of the results.")


def demo_table() -> str:
    rows = json.loads((ROOT / "results" / "demo-seed0.json").read_text())["rows"]
    return "\n".join([HEAD.format("model"), *(row(entry["name"], [entry]) for entry in rows)])


def flickr8k_table() -> str:
    lines = [HEAD.format("model")]
    cca = json.loads((ROOT / "results" / "f8k-cca.json").read_text())["runs"]
    lines.append(row("CCA (closed form)", list(cca.values())))
    lines.append(row("VSE0", tests(result("grid-vse0-1c"))))
    lines.append(row("VSE++", tests(result("grid-vse++-1c"))))
    best = best_model()
    seeds = best["runs"]["128 dimensions, half precision"]
    lines.append(row("VSE++, the best recipe", list(seeds.values())))
    shipped = best["in the box"]["runs"]["128 dimensions, half precision"]
    lines.append(row("a mean of three of them: the earlier model in the box", [shipped]))
    lines.append(row("the model in the box", [box()["models"][0]["flickr8k"]]))
    return "\n".join(lines)


def box() -> dict[str, Any]:
    """What results/world.json knows of the model in the box and of others."""
    found: dict[str, Any] = json.loads((ROOT / "results" / "world.json").read_text())
    return found


def box_table() -> str:
    lines = [
        "| model | weights, MB | photos/s | COCO test | Flickr8k test | everyday nouns | command |",
        "|---|" + 5 * "---:|" + "---|",
    ]
    for model in box()["models"]:
        cells = [
            f"{model['megabytes']:.1f}",
            f"{model['photos_per_second']:.0f}" if "photos_per_second" in model else "",
            f"{model['coco']['rsum']:.1f}",
            f"{model['flickr8k']['rsum']:.1f}",
            f"{model['everyday']:.2f}" if "everyday" in model else "",
        ]
        lines.append(f"| {model['name']} | {' | '.join(cells)} | `{model['command']}` |")
    return "\n".join(lines)


def languages_table() -> str:
    """Empty where results/languages.py has not run."""
    file = ROOT / "results" / "world-languages.json"
    models = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    columns = [f"{kind} R@{k}" for kind in ("captions", "images") for k in (1, 5, 10)]
    lines = [
        f"| model | MB | language | captions | {' | '.join(columns)} | rsum |",
        "|---|---:|---|" + 8 * "---:|",
    ]
    for name, model in models.items():
        for language, found in model["languages"].items():
            recalls = [found[kind][key] for kind in ("captions", "images") for key in COLUMNS[:3]]
            cells = [f"{number:.1f}" for number in (*recalls, found["rsum"])]
            about = name, f"{model['megabytes']:.1f}", language, f"{found['num_captions']:,}"
            lines.append(f"| {' | '.join((*about, *cells))} |")
    return "\n".join(lines)


def held_out_table() -> str:
    measured = latest("held_out_words")
    lines = ["| vectors of the held-out words | R@1 | R@5 | R@10 |", "|---|---:|---:|---:|"]
    for name in ("learned", "predicted", "unknown"):
        cells = [f"{measured[name][key]:.1f}" for key in ("r1", "r5", "r10")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
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
    measured = latest("ranking")
    low, high = measured["ours_to_product_spread"]
    return (
        "| way | time |\n|---|---|\n"
        "| the matrix product alone | 1 |\n"
        f"| `Retrieval.from_vectors` | {measured['ours_to_product']} ({low} to {high}, n = {measured['n']}) |\n"
        f"| the authors' release | {measured['release_to_ours'] * measured['ours_to_product']:.0f} |"
    )


def speed_table() -> str:
    """The obvious way and ours, side by side."""
    gpu, cpu = latest("train_features-gpu"), latest("train_features")
    order, ranks = latest("order-gpu"), latest("evaluate-gpu")
    rows = [
        ("a step of training on features, H200", gpu["obvious_ms"], gpu["fast_ms"]),
        ("the same on 16 CPU cores", cpu["obvious_ms"], cpu["fast_ms"]),
        ("order similarity, 5,000 x 25,000, H200", order["broadcast"]["forward_ms"], order["ours"]["forward_ms"]),
        ("ranks of 5,000 x 25,000, H200", ranks["sorting_ms"], ranks["ours_ms"]),
    ]  # fmt: skip
    head = "| work | the obvious way, ms | ours, ms |\n|---|---:|---:|"
    return "\n".join([head, *(f"| {name} | {spread(a)} | {spread(b)} |" for name, a, b in rows)])


def training_table() -> str:
    gpu, cpu = latest("train_features-gpu"), latest("train_features")
    names = {
        "obvious": "the obvious loop: items, DataLoader, padded, eager",
        "peer": "the same, loss and miner of pytorch-metric-learning",
        "plain": "the plain stepper",
        "fast_tf32": 'the captured stepper, `precision="tf32"`',
        "fast": "the captured stepper",
    }
    lines = [
        "| loop | H200, ms a step | times ours | 16 CPU cores | times ours |\n|---|---:|---:|---:|---:|"
    ]
    for name, words in names.items():
        cells = [
            cell
            for record in (gpu, cpu)
            for cell in (spread(record.get(f"{name}_ms")), spread(record.get(f"{name}_to_fast"), 1))
        ]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def whole_run_table() -> str:
    gpu = latest("train_features-gpu")
    lines = [
        "| 30 epochs, 97,020 steps | seconds | first epoch | other epochs |\n|---|---:|---:|---:|"
    ]
    for name, words in (
        ("whole_run_with_compiling", "no kernel compiled before"),
        ("whole_run", "kernels in Triton's cache"),
    ):
        run = gpu[name]
        lines.append(f"| {words} | {run['seconds']:.1f} | {run['first_epoch_seconds']:.2f} | {run['epoch_seconds']['median']:.2f} |")  # fmt: skip
    return "\n".join(lines)


def pictures_table() -> str:
    measured = latest("train_pictures-gpu")
    lines = [
        "| ResNet152, RC, batch 128 | frozen, pictures/s | fine-tuned, pictures/s |\n|---|---:|---:|"
    ]
    for suffix, words in (
        ("_net_alone", "the net alone, forward or forward and backward"),
        ("", "the captured stepper, pictures on the GPU"),
        ("_obvious", "DataLoader with 16 workers, eager single precision"),
    ):
        cells = (spread(measured[f"{way}{suffix}_per_second"]) for way in ("frozen", "finetuned"))
        lines.append(f"| {words} | {' | '.join(cells)} |")
    ratios = (spread(measured[f"{way}_to_net_alone"], 2) for way in ("frozen", "finetuned"))
    return "\n".join([*lines, f"| ours to the net alone | {' | '.join(ratios)} |"])


def cpu_precision_table() -> str:
    lines = ["| net | float32, s | bf16, s | times as fast |\n|---|---:|---:|---:|"]
    for net, found in latest("cpu_precision").items():
        cells = (spread(found[name], 2) for name in ("float32_s", "bf16_s", "float32_to_bf16"))
        lines.append(f"| {net} | {' | '.join(cells)} |")
    return "\n".join(lines)


def embedding_table() -> str:
    measured = latest("embed")
    lines = ["| way | photos/s | captions/s |\n|---|---:|---:|"]
    for name, words in (
        ("obvious", "torch, eager, photos one after another"),
        ("sentence_transformers", "the same net in sentence-transformers"),
        ("ours", "`vsepp.load()`"),
        ("decode_plus_net", "decoding alone plus the net alone"),
    ):
        cells = (
            spread(measured.get(f"{kind}_{name}_per_second")) for kind in ("photos", "captions")
        )
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def order_table() -> str:
    order, cpu = latest("order-gpu"), latest("order")
    rows = {
        "broadcast": "broadcasting over blocks of images",
        "compiled": "the formula under `torch.compile`",
        "tiles": "tiles of 16 MB, ours where there is no kernel",
        "ours": "`order_similarity`",
    }
    lines = ["| way | H200: 5,000 x 25,000, ms | 16 CPU cores: 500 x 2,500, ms |\n|---|---:|---:|"]
    for name, words in rows.items():
        cells = (spread(record.get(name, {}).get("forward_ms")) for record in (order, cpu))
        lines.append(f"| {words} | {' | '.join(cells)} |")
    both = (spread(record["ours"]["forward_and_backward_ms"]) for record in (order, cpu))
    lines.append(f"| `order_similarity`, forward and backward | {' | '.join(both)} |")
    return "\n".join(lines)


def order_step_table() -> str:
    step = latest("order-gpu")["step"]
    lines = ["| similarity | ms a step | to the inner product |\n|---|---:|---:|"]
    for name, values in step["ms"].items():
        ratio = spread(step["to_inner_product"].get(name), 2) if "order" in name else "1"
        lines.append(f"| `{name}` | {spread(values)} | {ratio} |")
    return "\n".join(lines)


def evaluation_table() -> str:
    ranks = latest("evaluate-gpu")
    rows = (
        ("the matrix product alone", "product_ms"),
        ("`Retrieval.from_vectors`", "ours_ms"),
        ("the same with the order similarity", "ours_with_order_similarity_ms"),
        ("two full sorts", "sorting_ms"),
        ("1,000 images: `Retrieval.from_vectors`, all figures", "ours_all_of_1k_images_ms"),
        ("1,000 images: torchmetrics, caption R@1 alone", "torchmetrics_r1_of_1k_images_ms"),
    )
    head = "| way | H200, ms |\n|---|---:|"
    return "\n".join([head, *(f"| {words} | {spread(ranks[name])} |" for words, name in rows)])


def large_batch_table() -> str:
    measured = latest("large_batch-gpu")
    lines = ["| batch | seconds a step | pictures/s | peak memory, GB |\n|---|---:|---:|---:|"]
    for name, words in (
        ("128", "128 at once"),
        ("512", "512 at once"),
        ("512_in_chunks", "512 in chunks of 256"),
        ("8192_in_chunks", "8,192 in chunks of 256"),
    ):
        row = measured[name]
        lines.append(f"| {words} | {spread(row['seconds'])} | {row['pictures_per_second']:,} | {row['gigabytes']} |")  # fmt: skip
    return "\n".join(lines)


def search_table() -> str:
    """What searching and indexing take, relative to the lower bound."""
    search, index = latest("search"), latest("index")
    lines = ["| work | relative to the lower bound |\n|---|---:|"]
    for dim, found in search["dimensions"].items():
        for way, words in (("search", ""), ("search_in_a_folder", ", in a folder")):
            name = f"a search among {search['photos']:,} photos, {int(dim):,} dimensions{words}"
            ratio = spread(found[f"{way}_to_tower_and_product"], 2)
            lines.append(f"| {name} | {ratio} times the time |")
    for label, words in NETS.items():
        name = f"indexing {index['photos']:,} photos of 640 x 480, {words}"
        ratio = spread(index[label]["speed_to_decode_plus_net"], 2)
        lines.append(f"| {name} | {ratio} times the speed |")
    return "\n".join(lines)


def indexing_table() -> str:
    index = latest("index")
    lines = [
        "| net | memory after 1,000 photos | after 5,000 | slope per 1,000 |\n|---|---:|---:|---:|"
    ]
    for label, words in NETS.items():
        found = index[label]
        memory = found["memory_megabytes"]
        slope = found["memory_slope_megabytes_per_1000_photos"]
        lines.append(f"| {words} | {memory['after_1000']:,.0f} MB | {memory['after_all']:,.0f} MB | {slope or 0:.2f} MB |")  # fmt: skip
    return "\n".join(lines)


def cutoff_table() -> str:
    """What is shown and what is hidden, by the size of the collection."""
    sizes = latest("cutoff")["sizes"]
    rows = (
        ("40 everyday queries: recall", "everyday", "recall", 2),
        ("their precision", "everyday", "precision", 2),
        ("photos shown for one, on average", "everyday", "shown", 1),
        ("frequent words: recall", "words", "recall", 2),
        ("average precision of their ranking", "words", "average_precision", 2),
        ("whole captions: right photos of the first ten that are shown", "captions", "kept", 3),
        ("50 foreign queries: photos shown, median", "foreign", "median", 0),
        ("nine of ten show at most", "foreign", "nine_of_ten_at_most", 0),
        ("everyday words, photos of them taken away: median", "absent", "median", 0),
        ("most", "absent", "most", 0),
    )
    head = " | ".join(f"{int(size):,} photos" for size in sizes)
    lines = [f"| what | {head} |\n|---|{len(sizes) * '---:|'}"]
    for words, part, name, digits in rows:
        pairs = ([ways[way][part][name] for way in ("ours", "simple")] for ways in sizes.values())
        cells = (f"{now:,.{digits}f} ({before:,.{digits}f})" for now, before in pairs)
        lines.append(f"| {words} | {' | '.join(cells)} |")
    right = (f"{ways['ours']['everyday']['right']:,.1f}" for ways in sizes.values())
    lines.insert(4, f"| photos whose captions have its words | {' | '.join(right)} |")
    return "\n".join(lines)


def everyday_table() -> str:
    """Mean average precision of everyday queries, and what the cut-off makes of them."""
    measured = latest("everyday")
    lines = [
        f"| {measured['photos']:,} photos | queries | mean average precision | precision | recall | F1 "
        "| F1 of the best cut-off for each |\n|---|" + 6 * "---:|"
    ]
    for kind in ("frequent nouns", "nouns", "phrases"):
        row = measured[kind]
        figures = (row[name] for name in ("ap", "precision", "recall", "f1", "best_f1"))
        cells = " | ".join(f"{figure:.2f}" for figure in figures)
        lines.append(f"| {kind} | {row['queries']} | {cells} |")
    return "\n".join(lines)


def robustness_table() -> str:
    """What was tried to lose photos, to change weights and to bring the service down."""
    kills, hostile = latest("kills"), latest("hostile")
    lines = ["| what | how many | found |\n|---|---:|---:|"]
    for name, told in KILLED.items():
        lines.append(f"| {told} | {kills[name]['kills']:,} | {len(kills[name]['findings'])} |")
    for part, told in (("files", "mutated files"), ("requests", "mutated requests")):
        done = hostile[part]
        lines.append(f"| {told} | {done[part]:,} | {len(done['findings'])} |")
    return "\n".join(lines)


def shared_training_table() -> str:
    lines = [
        "| recipe | pairs of a batch | one process, ms a step | two processes | times as fast | "
        "if they exchanged nothing | others' share of the cores |\n|---|" + 6 * "---:|"
    ]
    measured = latest("distributed")
    for recipe in ("demo-vse++", "scratch", "features", "f8k-vse++-rc-ft"):
        if (row := measured.get(recipe)) is None:
            continue
        times = (spread(row[name]) for name in ("one_process_ms", "two_processes_ms"))
        ratios = "times_as_fast", "times_as_fast_apart", "others"
        cells = (*times, *(spread(row.get(name), 2) for name in ratios))
        lines.append(f"| `{recipe}` | {row['batch']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ray_table() -> str:
    measured = latest("ray_embedding")
    rows = (
        (f"{measured['photos']:,} photos in this process, seconds", "seconds_here", None),
        ("until Ray's actors had a photo each, Ray running", "seconds_of_start_up", None),
        ("all photos on Ray, beyond that", "seconds_on_ray_beyond_start_up", None),
        ("Ray's time, relative to one process", "ray_to_here_on_the_wall", 2),
    )
    lines = [f"| {words} | {spread(measured[name], digits)} |" for words, name, digits in rows]
    n, load = measured["seconds_here"]["n"], measured["load_average"][2]
    lines.append(f"| Ray's own start | {measured['seconds_until_ray_runs']} |")
    return "\n".join(
        [f"| n = {n}, load {load} | median (smallest to largest) |\n|---|---:|", *lines]
    )


def milvus_table() -> str:
    measured = latest("milvus")
    lines = [
        f"| {measured['photos']:,} photos | a file stores, photos/s | Milvus stores | "
        "a search with HNSW, ms (worst) | with IVF_SQ8 |\n|---|" + 4 * "---:|"
    ]
    for dim in (128, 1024):
        found = measured[f"{dim}_dimensions"]
        rates = (f"{found[where]['photos_per_second']:,}" for where in ("file", "milvus"))
        searches = (found["milvus"][name]["search_ms"] for name in ("HNSW", "IVF_SQ8"))
        cells = (f"{taken['median']} ({taken['worst']})" for taken in searches)
        lines.append(f"| {dim:,} dimensions | {' | '.join((*rates, *cells))} |")
    return "\n".join(lines)


def latest(name: str) -> dict[str, Any]:
    """What the last run of a benchmark measured."""
    measured: dict[str, Any] = json.loads(max(records_of(name)).read_text())["measured"]
    return measured


def records_of(name: str) -> list[Path]:
    return list((ROOT / "benchmarks" / "records").glob(f"????-??-??-{name}/record.json"))


def spread(values: dict[str, Any] | None, digits: int | None = None) -> str:
    """Median, and in brackets the smallest and the largest of n."""
    if values is None:
        return ""
    middle, low, high = (number(value, digits) for value in (values["median"], *values["spread"]))
    return f"{middle} ({low} to {high})"


def number(value: float, digits: int | None) -> str:
    if digits is None:  # three figures that count
        digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f}"


DOCS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {
        "demo": demo_table,
        "flickr8k": flickr8k_table,
        "ranking": ranking_table,
        "speed": speed_table,
        "search": search_table,
    },
    "docs/performance.md": {
        "training": training_table,
        "whole run": whole_run_table,
        "pictures": pictures_table,
        "cpu precision": cpu_precision_table,
        "embedding": embedding_table,
        "order": order_table,
        "order step": order_step_table,
        "evaluation": evaluation_table,
        "large batch": large_batch_table,
        "search": search_table,
        "indexing": indexing_table,
    },
    "docs/search.md": {
        "cut-off": cutoff_table,
        "everyday": everyday_table,
        "robustness": robustness_table,
    },
    "docs/results.md": {
        "box": box_table,
        "languages": languages_table,
        "held-out words": held_out_table,
    }
    | FLICKR8K,
    "docs/evaluation.md": EVALUATION,
    "docs/scale.md": {
        "two processes": shared_training_table,
        "ray": ray_table,
        "milvus": milvus_table,
    },
}


if __name__ == "__main__":
    main()
