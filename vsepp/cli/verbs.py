"""How a function becomes a command, and the options that several commands share."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vsepp import __version__
from vsepp.cli.voice import complain
from vsepp.errors import WorkFailed, WrongRequest
from vsepp.plugins import how_to_install

if TYPE_CHECKING:
    from vsepp.experiments.opening import UseOfData

Verb = Callable[..., None]
Data = Annotated[str, typer.Option(help="A path, or shapes:N for the built-in world.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the recipe: loss.margin=0.1"),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

app = typer.Typer(
    name="vsepp",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _say_version(asked: bool) -> None:
    if asked:
        print(f"vsepp {__version__}")
        raise typer.Exit


@app.callback()
def vsepp(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Say which version this is."
        ),
    ] = False,
) -> None:
    """Learn, measure and use a joint space of pictures and captions."""


def verbs_among(commands: typer.Typer, panel: str | None = None) -> Callable[[Verb], Verb]:
    """A decorator that makes functions verbs, listed together in a panel of `--help`."""

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
            complain(error)
            raise typer.Exit(2) from error
        except BrokenPipeError as error:  # the reader has seen enough, such as `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from error
        except (WorkFailed, OSError) as error:
            complain(error)
            raise typer.Exit(1) from error
        except ModuleNotFoundError as error:
            complain(f"{error}. To train and evaluate: {how_to_install('train')}")
            raise typer.Exit(1) from error

    return guarded


def use_keys(changes: list[str] | None) -> "UseOfData":
    from vsepp.experiments.keys import read_keys
    from vsepp.experiments.opening import UseKeys

    return read_keys(UseKeys, changes or ()).data
