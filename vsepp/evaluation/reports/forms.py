"""Tables of text, and how they are written: plain, Markdown, LaTeX and HTML."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from vsepp.errors import WrongRequest

MARK = "*"  # a difference that chance explains in less than one of twenty cases
MARKDOWN = re.compile(r"[\\|*`<]")
LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "{": r"\{", "}": r"\}",
    "$": r"\$", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", MARK: r"$^{*}$", "±": r"$\pm$",
}  # fmt: skip


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
    head, *rows = (
        "| " + " | ".join(_marked_down(one) for one in row) + " |"
        for row in (table.head, *table.rows)
    )
    rule = "|---|" + (len(table.head) - 1) * "---:|"
    note = [f"\n{_marked_down(table.note)}"] if table.note else []
    return "\n".join([f"**{_marked_down(table.title)}**\n", head, rule, *rows, *note])


def _marked_down(text: str) -> str:
    """A bar would begin another cell, and a star another type."""
    return MARKDOWN.sub(r"\\\g<0>", text)


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
    # In one pass: what is written for one mark has marks of others.
    return "".join(LATEX.get(mark, mark) for mark in text)


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
