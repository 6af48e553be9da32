"""A page that shows on which queries two models differ, with the photos."""

from collections.abc import Sequence
from html import escape

import numpy as np

from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.measurement import DIRECTIONS, Measurement
from vsepp.evaluation.metrics.relevance import Ints
from vsepp.evaluation.reports.forms import render
from vsepp.evaluation.reports.page import Photos, cards, page, section
from vsepp.evaluation.reports.tables import comparison_tables

SHOWN = 3  # items that a card shows of each model
CARDS = 6  # of each kind
BINS = (1, 5, 10, 50)  # ranks up to
BIN_NAMES = ("1", "2-5", "6-10", "11-50", "> 50")
QUERY = {"captions": "photo", "images": "caption"}


class Model:
    """A model with what it ranks first."""

    def __init__(self, embeddings: Embeddings, result: Measurement) -> None:
        self.embeddings, self.result = embeddings, result
        matrix = embeddings.matrix()
        self.top = {"captions": matrix.top(SHOWN)[0], "images": matrix.transposed().top(SHOWN)[0]}

    @property
    def name(self) -> str:
        return self.result.name


def comparison_page(models: Sequence[Model], photos: Photos) -> str:
    """All models in one table, and the first against each other one, query by query."""
    results = [model.result for model in models]
    first, *more = (render([table], "html") for table in comparison_tables(results))
    rest = "".join(f"<div>{table}</div>" for table in more)
    sections = [first, f'<div class="tables">{rest}</div>']
    for other in models[1:]:
        sections += [_pair(models[0], other, way, photos) for way in DIRECTIONS]
    names = " and ".join((", ".join(m.name for m in models[:-1]), models[-1].name))
    remarks = [f"{result.name}: {remark}" for result in results for remark in result.remarks]
    lines = ["The first model against each other one, query by query.", *remarks]
    return page(f"{names} compared", "\n".join(lines), sections)


def _pair(a: Model, b: Model, way: str, photos: Photos) -> str:
    ranks_a, ranks_b = a.result.ranks[way], b.result.ranks[way]
    parts = [_bar(a, b, ranks_a, ranks_b), _grid(a, b, ranks_a, ranks_b)]
    for better, worse, first, second in ((a, b, ranks_a, ranks_b), (b, a, ranks_b, ranks_a)):
        # by how many times the rank is better, where it is found at all
        gain = np.where(first <= 10, np.log(second / first), 0)
        chosen = [n for n in np.argsort(-gain, kind="stable")[:CARDS].tolist() if gain[n] > 0]
        shown = [_card(a, b, way, int(a.result.queries[way][n]), n, photos) for n in chosen]
        parts.append(f"<h3>{escape(better.name)} ranks it higher than {escape(worse.name)}</h3>")
        parts.append(cards(shown))
    title = f"{a.name} against {b.name}: {QUERY[way]} queries"
    return section(
        title,
        f"{len(ranks_a):,} queries; the rank of the first right {way[:-1]}.",
        "\n".join(parts),
    )


def _bar(a: Model, b: Model, ranks_a: Ints, ranks_b: Ints) -> str:
    """Who finds what on the first place."""
    right_a, right_b = ranks_a == 1, ranks_b == 1
    parts = (
        ("both", right_a & right_b, "var(--right)"),
        (f"only {a.name}", right_a & ~right_b, "var(--a)"),
        (f"only {b.name}", right_b & ~right_a, "var(--b)"),
        ("neither", ~right_a & ~right_b, "var(--quiet)"),
    )
    spans, names = [], []
    for name, chosen, colour in parts:
        share = float(chosen.mean())
        spans.append(f'<span style="flex:{share:.4f};background:{colour}"></span>')
        names.append(f'<span><i style="background:{colour}"></i>{escape(name)} {share:.1%}</span>')
    return (
        f'<p class="note">Right on the first place:</p><div class="bar">{"".join(spans)}</div>'
        f'<div class="legend">{"".join(names)}</div>'
    )


def _grid(a: Model, b: Model, ranks_a: Ints, ranks_b: Ints) -> str:
    """How many queries have which rank in both."""
    row, column = np.searchsorted(BINS, ranks_a), np.searchsorted(BINS, ranks_b)
    counts = np.zeros((len(BIN_NAMES), len(BIN_NAMES)), dtype=int)
    np.add.at(counts, (row, column), 1)
    most = max(1, int(counts.max()))
    head = "".join(f"<th>{escape(name)}</th>" for name in BIN_NAMES)
    lines = []
    for n, name in enumerate(BIN_NAMES):
        cells = "".join(_grid_cell(int(count), most, n, m) for m, count in enumerate(counts[n]))
        lines.append(f"<tr><td>{escape(a.name)}: {escape(name)}</td>{cells}</tr>")
    table = f"<table class=grid><thead><tr><th>rank of {escape(b.name)}:</th>{head}</tr></thead>"
    return f'<div class="wide">{table}<tbody>{"".join(lines)}</tbody></table></div>'


def _grid_cell(count: int, most: int, row: int, column: int) -> str:
    colour = "--quiet" if row == column else "--a" if row < column else "--b"
    share = round(70 * (count / most) ** 0.5)
    return f'<td style="background:color-mix(in srgb, var({colour}) {share}%, transparent)">{count:,}</td>'


def _card(a: Model, b: Model, way: str, query: int, number: int, photos: Photos) -> str:
    ranks = f"rank {a.result.ranks[way][number]:,} and {b.result.ranks[way][number]:,}"
    if way == "images":
        return _caption_card(a, b, query, ranks, photos)
    return _photo_card(a, b, query, ranks, photos)


def _caption_card(a: Model, b: Model, query: int, ranks: str, photos: Photos) -> str:
    own = int(a.embeddings.owners[query])
    text = a.embeddings.texts[query] if a.embeddings.texts else a.embeddings.caption_ids[query]
    rows = []
    for name, model in (("a", a), ("b", b)):
        found = "".join(
            photos.figure(model.embeddings.image_ids[item], right=item == own)
            for item in model.top["images"][query].tolist()
        )
        rows.append(f'<div class="row {name}"><b>{escape(model.name)}</b>{found}</div>')
    wanted = photos.figure(a.embeddings.image_ids[own], "the photo it was written for", right=True)
    return (
        f"<p>{escape(text)}</p><div class=row><b>{escape(ranks)}</b>{wanted}"
        f"<figure></figure><figure></figure></div>{''.join(rows)}"
    )


def _photo_card(a: Model, b: Model, query: int, ranks: str, photos: Photos) -> str:
    rows = []
    for name, model in (("a", a), ("b", b)):
        e = model.embeddings
        lines = "".join(
            f'<div class="{"right" if e.owners[item] == query else "wrong"}">'
            f"{escape(e.texts[item] if e.texts else e.caption_ids[item])}</div>"
            for item in model.top["captions"][query].tolist()
        )
        rows.append(
            f'<div class="row {name}"><b>{escape(model.name)}</b><div class=texts>{lines}</div></div>'
        )
    shown = photos.figure(a.embeddings.image_ids[query], ranks)
    return f"<div class=row>{shown}<div class=texts>{''.join(rows)}</div></div>"
