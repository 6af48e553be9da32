"""Tables of results, with intervals and marks of significance."""

from collections.abc import Sequence

from vsepp.evaluation.measurement import Measurement
from vsepp.evaluation.metrics.uncertainty import Difference, Interval, compare, holm
from vsepp.evaluation.reports.forms import MARK, Table
from vsepp.evaluation.reports.paper_table import figures

SIGNIFICANT = 0.05
ORDER = ("R@", "median rank", "mean rank", "MRR", "nDCG", "mAP@R", "R-precision")
RIGHT_ITEMS = (("nDCG", "captions"), ("mAP@R", "captions"), ("nDCG", "images"))
Key = tuple[str, str]  # a measure and what is searched, or a source of probes and their kind


def cell(interval: Interval, mark: str = "") -> str:
    """41.3 [38.3, 44.4]"""
    return f"{interval.value:.1f}{mark} [{interval.low:.1f}, {interval.high:.1f}]"


# ---- what is shown of one model --------------------------------------------------------------


def report_tables(result: Measurement) -> list[Table]:
    """Everything that was measured of one model."""
    tables = [_retrieval_table(result)]
    tables += _annotation_tables(result)
    if result.folds:
        tables.append(_fold_table(result))
    tables += _correlation_tables(result)
    tables += [_judgement_table([result])] if result.judgements else []
    tables += [_probe_table([result])] if result.probes else []
    return tables


def _retrieval_table(result: Measurement) -> Table:
    names = {name for name, direction in result.intervals if direction in ("captions", "images")}
    names = {name for name in names if name.startswith(ORDER)}
    rows = [
        [name, *(cell(result.intervals[name, way]) for way in ("captions", "images"))]
        for name in sorted(names, key=_place)
    ]
    if ("rsum", "both") in result.intervals:
        rows.append(["rsum", cell(result.intervals["rsum", "both"]), ""])
    head = (result.name, "caption retrieval", "image retrieval")
    return Table("Retrieval, with 95 % intervals over images", head, rows, result.signature)


def _place(name: str) -> tuple[int, int]:
    number = next(n for n, start in enumerate(ORDER) if name.startswith(start))
    return number, int(name[2:]) if name.startswith("R@") else 0


def _annotation_tables(result: Measurement) -> list[Table]:
    others = [key for key in result.intervals if _is_annotated(key)]
    if not others:
        return []
    ways = [
        way
        for way in ("captions", "images", "text-text", "image-image")
        if any(direction == way for _, direction in others)
    ]
    rows = []
    for name in dict.fromkeys(name for name, _ in others):
        found = (result.intervals.get((name, way)) for way in ways)
        rows.append([name, *("" if one is None else cell(one) for one in found)])
    return [Table("Positives that others annotated", (result.name, *ways), rows)]


def _fold_table(result: Measurement) -> Table:
    rows = [
        [str(number), *(f"{value:.1f}" for value in figures(fold))]
        for number, fold in enumerate(result.folds, 1)
    ]
    head = ("fold", "R@1", "R@5", "R@10", "Med r", "R@1", "R@5", "R@10", "Med r", "rsum")
    return Table("Each fold: captions, then images", head, rows)


def _correlation_tables(result: Measurement) -> list[Table]:
    if not result.correlations:
        return []
    rows = [
        [
            kind.upper(),
            f"{one.get('sampled_spearman', float('nan')):.3f} ± {one.get('deviation', 0):.3f}",
            f"{one.get('spearman', float('nan')):.3f}",
            f"{one['pairs']:,}",
        ]
        for kind, one in result.correlations.items()
    ]
    head = (result.name, "sampled Spearman", "Spearman", "pairs")
    return [Table("Crisscrossed Captions: correlation with people's ratings", head, rows)]


def _judgement_table(results: Sequence[Measurement]) -> Table:
    rows, counts, resamples = [], {}, 0
    for result in results:
        for who, found in result.judgements.items():
            counts[who] = found["judgements"]
            resamples = found["resamples"]
    overlap: dict[str, list[str]] = {}
    for result in results:
        line = [result.name]
        for found in result.judgements.values():
            line += _three(found["model"])
            if "word overlap" in found:
                overlap.setdefault("word overlap", []).extend(_three(found["word overlap"]))
        rows.append(line)
        overlap = {name: cells[: len(line) - 1] for name, cells in overlap.items()}
    rows += [[name, *cells] for name, cells in overlap.items()]
    head = ["", *(f"{who} {name}" for who in counts for name in ("tau-b", "tau-c", "rho"))]
    said = ", ".join(f"{who}: {count:,} judgements" for who, count in counts.items())
    note = f"{said}; intervals of {resamples:,} resamples of the images."
    return Table("Correlation with people's judgement", head, rows, note)


def _three(found: dict[str, dict[str, float]]) -> list[str]:
    cells = (found[name] for name in ("tau_b", "tau_c", "spearman"))
    return [f"{x['value']:.3f} [{x['low']:.3f}, {x['high']:.3f}]" for x in cells]


def _probe_table(results: Sequence[Measurement]) -> Table:
    rows = []
    for source, kind in _probe_kinds(results):
        found = [r.probes.get(source, {}).get(kind) for r in results]
        first = next(one for one in found if one is not None)
        cells = ["" if one is None else cell(one) for one in found]
        rows.append([f"{kind}, {source}", f"{first.probes:,}", f"{first.chance:.1f}", *cells])
    head = ["", "probes", "chance", *(r.name for r in results)]
    return Table("Right captions told from wrong ones, in percent", head, rows)


def _probe_kinds(results: Sequence[Measurement]) -> list[tuple[str, str]]:
    every = ((s, kind) for r in results for s, found in r.probes.items() for kind in found)
    return list(dict.fromkeys(every))


# ---- several models --------------------------------------------------------------------------


def comparison_tables(results: Sequence[Measurement]) -> list[Table]:
    """Models side by side, and each difference with its interval, test and power."""
    differences = all_differences(results)
    more = probe_differences(results)
    tables = _side_by_side(results, differences)
    tables += [_difference_table(pair, found) for pair, found in differences.items()]
    for result in results:
        tables += [*_annotation_tables(result), *_correlation_tables(result)]
    tables += [_judgement_table(results)] if all(r.judgements for r in results) else []
    if all(r.probes for r in results):
        tables.append(_probe_table(results))
        tables += [_difference_table(pair, found, "probes: ") for pair, found in more.items()]
    return tables


def _side_by_side(results: Sequence[Measurement], differences: "dict[Key, Found]") -> list[Table]:
    baseline = results[0]
    note = (
        f"{MARK} differs from {baseline.name}: p < 0.05 by a permutation test over images, "
        "corrected for the number of comparisons (Holm)."
    )
    signature = " | ".join(dict.fromkeys(result.signature for result in results))
    shown = _compared(results)
    recalls = [key for key in shown if key[0].startswith(("R@", "rsum"))]
    right_items = [key for key in shown if key in RIGHT_ITEMS]
    tables = []
    for title, keys, below in (
        ("Retrieval, with 95 % intervals over images", recalls, f"{note}\n{signature}"),
        ("Ranks of all right items", right_items, ""),
    ):
        rows = []
        for result in results:
            found = differences.get((result.name, baseline.name), {})
            marks = {key: MARK if p < SIGNIFICANT else "" for key, (_, p) in found.items()}
            rows.append([result.name, *(cell(result.intervals[k], marks.get(k, "")) for k in keys)])
        tables.append(Table(title, ["", *(_short(key) for key in keys)], rows, below))
    return tables


def _compared(results: Sequence[Measurement]) -> list[Key]:
    """The measures that are shown of all models: recalls, ranks of all right items, annotated positives."""
    keys = [(s.name, s.direction) for s in results[0].statistics]
    known = [{(s.name, s.direction) for s in result.statistics} for result in results[1:]]
    shown = (
        key
        for key in keys
        if key[0].startswith(("R@", "rsum")) or key in RIGHT_ITEMS or _is_annotated(key)
    )
    return sorted(
        (key for key in shown if all(key in some for some in known)),
        key=lambda key: (_is_annotated(key), key in RIGHT_ITEMS, key[0] == "rsum"),
    )


def _is_annotated(key: Key) -> bool:
    return "_" in key[0] or key[0] == "pmrp"


Found = dict[Key, tuple[Difference, float]]


def all_differences(results: Sequence[Measurement]) -> dict[tuple[str, str], Found]:
    """Every later model against every earlier one, p-values corrected over all of them."""
    keys = _compared(results)
    found = []
    for ours, theirs in _pairs(results):
        a, b = ([one.statistic(*key) for key in keys] for one in (ours, theirs))
        tested = compare(a, b, ours.resamples, ours.seed)
        found += [((ours.name, theirs.name), k, d) for k, d in zip(keys, tested, strict=True)]
    return _corrected(found)


def probe_differences(results: Sequence[Measurement]) -> dict[tuple[str, str], Found]:
    """The same of probes, photo by photo; p-values corrected over all of them."""
    found = []
    for ours, theirs in _pairs(results):
        for source, kind in _probe_kinds([ours]):
            a, b = (one.probes.get(source, {}).get(kind) for one in (ours, theirs))
            if a and b:
                (tested,) = compare([a.passed], [b.passed], ours.resamples, ours.seed)
                found.append(((ours.name, theirs.name), (source, kind), tested))
    return _corrected(found)


def _pairs(results: Sequence[Measurement]) -> list[tuple[Measurement, Measurement]]:
    return [(b, a) for n, a in enumerate(results) for b in results[n + 1 :]]


def _corrected(
    found: Sequence[tuple[tuple[str, str], Key, Difference]],
) -> dict[tuple[str, str], Found]:
    corrected = holm([difference.p_value for _, _, difference in found])
    result: dict[tuple[str, str], Found] = {}
    for (pair, key, difference), p_value in zip(found, corrected, strict=True):
        result.setdefault(pair, {})[key] = difference, p_value
    return result


def _difference_table(pair: tuple[str, str], found: Found, what: str = "") -> Table:
    rows = [
        [
            f"{key[1]}, {key[0]}" if what else _short(key),
            f"{difference.interval.value:+.1f} [{difference.interval.low:+.1f}, {difference.interval.high:+.1f}]",
            f"{p_value:.4f}",
            f"{difference.visible:.1f}",
            f"{difference.photos_for_one_point:,}",
        ]
        for key, (difference, p_value) in found.items()
    ]
    head = ("", "difference", "p", "visible here", "photos for 1 point")
    note = (
        "visible here: the smallest true difference that these photos show with a chance of 80 %."
    )
    return Table(f"{what}{pair[0]} minus {pair[1]}", head, rows, note)


def _short(key: Key) -> str:
    name, direction = key
    if direction == "both":
        return name
    return f"{direction.removesuffix('s')} {name}"
