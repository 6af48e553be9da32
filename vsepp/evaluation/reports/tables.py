"""Tables of results in text, Markdown, LaTeX and HTML, with intervals and marks of significance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from vsepp.errors import WrongRequest
from vsepp.evaluation.measurement import Measurement
from vsepp.evaluation.metrics.uncertainty import Difference, Interval, compare, holm
from vsepp.evaluation.reports.paper_table import figures

MARK = "*"  # a difference that chance explains in less than one of twenty cases
SIGNIFICANT = 0.05
ORDER = ("R@", "median rank", "mean rank", "MRR", "nDCG", "mAP@R", "R-precision")
COMPARED = (
    *((f"R@{k}", way) for way in ("captions", "images") for k in (1, 5, 10)),
    ("rsum", "both"),
)


@dataclass(frozen=True)
class Table:
    """Cells of text; the first column is to the left, all others to the right."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def render(tables: Sequence[Table], form: str = "text") -> str:
    if form not in FORMS:
        raise WrongRequest(f"There is no format {form!r} for tables. Known: {', '.join(FORMS)}.")
    return "\n\n".join(FORMS[form](table) for table in tables)


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
    others = [key for key in result.intervals if "_" in key[0] or key[0] == "pmrp"]
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
    rows, counts = [], {}
    for result in results:
        for who, found in result.judgements.items():
            counts[who] = found["judgements"]
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
    note = ", ".join(f"{who}: {count:,} judgements" for who, count in counts.items())
    return Table("Correlation with people's judgement", head, rows, note)


def _three(found: dict[str, dict[str, float]]) -> list[str]:
    cells = (found[name] for name in ("tau_b", "tau_c", "spearman"))
    return [f"{x['value']:.3f} [{x['low']:.3f}, {x['high']:.3f}]" for x in cells]


def _probe_table(results: Sequence[Measurement]) -> Table:
    kinds = list(
        dict.fromkeys(
            (source, kind) for r in results for source, found in r.probes.items() for kind in found
        )
    )
    rows = []
    for source, kind in kinds:
        found = (r.probes.get(source, {}).get(kind) for r in results)
        rows.append([f"{kind}, {source}", *("" if x is None else cell(x) for x in found)])
    head = ["probe", *(r.name for r in results)]
    return Table("Right captions told from wrong ones (%); chance is 50", head, rows)


# ---- several models --------------------------------------------------------------------------


def comparison_tables(results: Sequence[Measurement]) -> list[Table]:
    """Models side by side, and each difference with its interval, test and power."""
    differences = all_differences(results)
    baseline = results[0]
    rows = []
    for result in results:
        found = differences.get((result.name, baseline.name))
        marks = {key: MARK if p < SIGNIFICANT else "" for key, (_, p) in (found or {}).items()}
        rows.append([result.name, *(cell(result.intervals[k], marks.get(k, "")) for k in COMPARED)])
    head = ["", *(_short(key) for key in COMPARED)]
    note = (
        f"{MARK} differs from {baseline.name}: p < 0.05 by a permutation test over images, "
        "corrected for the number of comparisons (Holm)."
    )
    signature = " | ".join(dict.fromkeys(result.signature for result in results))
    tables = [
        Table("Retrieval, with 95 % intervals over images", head, rows, f"{note}\n{signature}")
    ]
    tables += [_difference_table(pair, found) for pair, found in differences.items()]
    for result in results:
        tables += [*_annotation_tables(result), *_correlation_tables(result)]
    tables += [_judgement_table(results)] if all(r.judgements for r in results) else []
    tables += [_probe_table(results)] if all(r.probes for r in results) else []
    return tables


Found = dict[tuple[str, str], tuple[Difference, float]]


def all_differences(results: Sequence[Measurement]) -> dict[tuple[str, str], Found]:
    """Every later model against every earlier one, p-values corrected over all of them."""
    pairs = [(b, a) for n, a in enumerate(results) for b in results[n + 1 :]]
    found: list[tuple[tuple[str, str], tuple[str, str], Difference]] = []
    for ours, theirs in pairs:
        keys = [key for key in COMPARED if key in ours.intervals and key in theirs.intervals]
        a, b = ([one.statistic(*key) for key in keys] for one in (ours, theirs))
        tested = compare(a, b, ours.resamples, ours.seed)
        found += [((ours.name, theirs.name), k, d) for k, d in zip(keys, tested, strict=True)]
    corrected = holm([difference.p_value for _, _, difference in found])
    result: dict[tuple[str, str], Found] = {}
    for (pair, key, difference), p_value in zip(found, corrected, strict=True):
        result.setdefault(pair, {})[key] = difference, p_value
    return result


def _difference_table(pair: tuple[str, str], found: Found) -> Table:
    rows = [
        [
            _short(key),
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
    return Table(f"{pair[0]} minus {pair[1]}", head, rows, note)


def _short(key: tuple[str, str]) -> str:
    name, direction = key
    return name if direction == "both" else f"{direction[:-1]} {name}"


# ---- forms -----------------------------------------------------------------------------------


def _text(table: Table) -> str:
    lines = [table.head, *table.rows]
    widths = [max(len(str(line[n])) for line in lines) for n in range(len(table.head))]
    rendered = [_padded(line, widths) for line in lines]
    rule = "-" * max(len(line) for line in rendered)
    note = [table.note] if table.note else []
    return "\n".join([table.title, rendered[0], rule, *rendered[1:], *note])


def _padded(line: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (str(one) for one in line)
    cells = [f"{one:>{width}}" for one, width in zip(rest, widths[1:], strict=True)]
    return "  ".join([f"{first:<{widths[0]}}", *cells]).rstrip()


def _markdown(table: Table) -> str:
    head = "| " + " | ".join(table.head) + " |\n|---|" + (len(table.head) - 1) * "---:|"
    rows = ["| " + " | ".join(row).replace("*", r"\*") + " |" for row in table.rows]
    note = [f"\n{table.note.replace('*', chr(92) + '*')}"] if table.note else []
    return "\n".join([f"**{table.title}**\n", head, *rows, *note])


def _latex(table: Table) -> str:
    body = [" & ".join(_tex(one) for one in row) + r" \\" for row in table.rows]
    head = " & ".join(_tex(one) for one in table.head) + r" \\"
    columns = "l" + (len(table.head) - 1) * "r"
    return "\n".join(
        [
            rf"% {table.title}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *(f"% {line}" for line in table.note.splitlines()),
        ]
    )


def _tex(text: str) -> str:
    for mark, written in (
        ("\\", r"\textbackslash{}"),
        ("&", r"\&"),
        ("%", r"\%"),
        ("_", r"\_"),
        ("#", r"\#"),
    ):
        text = text.replace(mark, written)
    return text.replace(MARK, r"$^{*}$").replace("±", r"$\pm$")


def _html(table: Table) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in table.head)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(one)}</td>" for one in row) + "</tr>\n" for row in table.rows
    )
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f"<h2>{escape(table.title)}</h2>\n"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>{note}'
    )


FORMS: dict[str, Callable[[Table], str]] = {
    "text": _text,
    "markdown": _markdown,
    "latex": _latex,
    "html": _html,
}
