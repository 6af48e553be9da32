"""How a function becomes a command: shared options, messages, progress, errors and exit codes."""

import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from vsepp import __version__
from vsepp.errors import WorkFailed, WrongRequest
from vsepp.plugins import how_to_install

if TYPE_CHECKING:
    from vsepp.data.collections import DataOptions

T = TypeVar("T")
Verb = Callable[..., None]
Data = Annotated[str, typer.Option(help="Path to the data, or shapes:N for N generated scenes.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a recipe key: loss.margin=0.1"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MANY = 2000  # items, from which on a progress bar is shown

# Messages of the library name arguments; these are the command line's options for them.
FLAGS = (
    (r'on_error="skip"', "--set data.on_error=skip"),
    (r"\bsize=(\d+), resize=(\d+)", r"--set model.size=\1 --set model.resize=\2"),
    (r'\bweights=("none"|FILE)', r"--set model.weights=\1"),
    (r"\bcrops must", "--crops must"),
    (r"(has no split '.*' Its splits: .*\.)$", r"\1 Name one: --split for evaluate, --set data.train and data.validate for train."),
)  # fmt: skip

app = typer.Typer(
    name="vsepp",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"vsepp {__version__}")
        raise typer.Exit


@app.callback()
def vsepp(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Train, evaluate and search with joint embeddings of images and captions."""


def verbs_among(commands: typer.Typer, panel: str | None = None) -> Callable[[Verb], Verb]:
    """A decorator that registers functions as commands, in a panel of `--help`."""

    def verb(function: Verb) -> Verb:
        name = function.__name__.rstrip("_")  # import_ is called import
        return commands.command(name, rich_help_panel=panel)(_guarded(function))

    return verb


def _guarded(function: Verb) -> Verb:
    """Expected errors end in a message and an exit code, not a traceback."""

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except WrongRequest as error:
            complain(in_flags(str(error)))
            raise typer.Exit(2) from error
        except BrokenPipeError as error:  # the reader has closed the pipe, such as `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from error
        except (WorkFailed, OSError) as error:
            complain(in_flags(str(error)))
            raise typer.Exit(1) from error
        except ModuleNotFoundError as error:
            complain(f"{error}. To train and evaluate: {how_to_install('train')}")
            raise typer.Exit(1) from error

    return guarded


def in_flags(message: str) -> str:
    for pattern, flag in FLAGS:
        message = re.sub(pattern, flag, message)
    return message


def use_keys(changes: list[str] | None) -> "DataOptions":
    """The options of commands that only read data."""
    from vsepp.experiments.recipes.keys import UseKeys, read_keys

    return read_keys(UseKeys, changes or ()).data


# ---- messages: to stderr, from the first process only ---------------------------------------


def speaks() -> bool:
    """Whether this is the only process, or the first of those that torchrun started."""
    return _rank() == "0"


def _rank() -> str:
    return os.environ.get("RANK", "0") if "WORLD_SIZE" in os.environ else "0"


def say(text: str) -> None:
    if speaks():
        print(text, file=sys.stderr)


def complain(reason: object) -> None:
    """In full from the first process, one line from others, which may have reasons of their own."""
    if speaks():
        say(f"vsepp: {reason}")
    else:
        print(f"vsepp (process {_rank()}): {str(reason).splitlines()[0]}", file=sys.stderr)


def track(items: Iterable[T], description: str, total: int) -> Iterable[T]:
    """A progress bar over many items, in a terminal."""
    from rich.console import Console
    from rich.progress import track as rich_track

    console = Console(file=sys.stderr)
    if total < MANY or not console.is_terminal:
        return items
    return rich_track(items, description, total, console=console, transient=True)


def print_table(rows: Iterable[tuple[str, ...]], right: Iterable[int] = ()) -> None:
    """Columns to stdout; never wrapped where the output is piped."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 0))
    for number, row in enumerate(rows):
        for column in range(len(row)) if number == 0 else ():
            table.add_column(justify="right" if column in set(right) else "left", overflow="fold")
        table.add_row(*row)
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 1000
    console.print(table)
