"""The command line: one verb = parse, call one function, print.

Heavy imports happen inside the verbs, so that `vsepp --help` answers at once.
"""

import json
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vsepp.errors import WorkFailed, WrongRequest

if TYPE_CHECKING:
    from vsepp.data.troubles import OnError
    from vsepp.experiments.figures import Figure

app = typer.Typer(
    name="vsepp",
    help="Learn, measure and use a joint space of pictures and captions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

figures = typer.Typer(help="Draw what runs and models do.", no_args_is_help=True)
app.add_typer(figures, name="figures")

Data = Annotated[str, typer.Option(help="A path, or shapes:N for the built-in world.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the recipe: loss.margin=0.1"),
]
Seed = Annotated[int, typer.Option(help="Of the examples that are drawn.")]
IntoFolder = Annotated[Path, typer.Option(help="Where the PNG and the HTML page go.")]
Model = Annotated[
    Path | None, typer.Option(help="A snapshot's folder; default: the collection's own model.")
]
Place = Annotated[
    str, typer.Argument(metavar="COLLECTION", help="What vsepp index made: a file or a URL.")
]
IndexUrl = Annotated[
    str | None,
    typer.Option("--index", metavar="URL", help="Another index for a file: exact:, usearch:FILE."),
]
QUERY_LANGUAGE = (
    "Words; -word leaves it out; in:FOLDER, after:2020-05, before:2021 filter by place and time."
)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def verb(function: Callable[..., None], among: typer.Typer = app) -> Callable[..., None]:
    """Register a verb whose expected errors end in a message and an exit code, not a traceback."""

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except WrongRequest as error:
            _complain(error)
            raise typer.Exit(2) from error
        except BrokenPipeError as error:  # the reader has seen enough, such as `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from error
        except (WorkFailed, OSError) as error:
            _complain(error)
            raise typer.Exit(1) from error
        except ModuleNotFoundError as error:
            _complain(f'{error}. To train and evaluate: pip install "vsepp[train]"')
            raise typer.Exit(1) from error

    among.command(function.__name__.rstrip("_"))(guarded)  # import_ is called import
    return guarded


@verb
def demo(
    out: Annotated[Path, typer.Option(help="Where models, scenes and picture go.")] = Path(
        "runs/demo"
    ),
    seed: Annotated[int, typer.Option(help="Of the three trainings.")] = 0,
    serve: Annotated[
        bool | None,
        typer.Option(
            "--serve/--no-serve",
            help="Open the page that searches the held-out scenes; default: in a terminal.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """The whole story on built-in pictures: train three models, compare them, search with the best."""
    from vsepp.evaluation.report import text
    from vsepp.experiments.demo import demo as run_demo

    result = run_demo(out, seed)
    if as_json:
        print(json.dumps(result.as_dict()), flush=True)
    else:
        print(text(list(result.rows.items())))
        print(f"{result.seconds:.0f} s. What each model retrieved: {result.picture}")
        print(f"Search the held-out scenes: vsepp serve {result.collection}", flush=True)
    if sys.stdout.isatty() and not as_json if serve is None else serve:
        _serve(result.collection, port=0)


@verb
def train(
    recipe: Annotated[str, typer.Argument(help="default, another recipe's name, or a TOML file.")],
    data: Data,
    into: Annotated[Path, typer.Option(help="Where the snapshot and its metrics go.")],
    changes: Changes = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with a run that was interrupted, if there is one."),
    ] = False,
) -> None:
    """Learn a joint space and keep the snapshot with the best recall sum on validation pictures."""
    from vsepp.experiments.opening import open_checked, summary
    from vsepp.experiments.recipe import Recipe
    from vsepp.experiments.run import run

    chosen = Recipe.load(recipe, changes or ())
    if chosen.seeds > 1 or chosen.model_of:
        raise WrongRequest(f"vsepp train makes one model. Take vsepp reproduce {recipe}.")
    collection = open_checked(data, chosen.data.on_error)
    _say(f"Taken for {collection.name}.")
    try:
        best = run(chosen, collection, into, resume)
    except KeyboardInterrupt:
        _say(f"Interrupted. What has been learned is in {into}; go on from there with --resume.")
        raise
    _say(f"Best: rsum {best.validation.rsum:.1f} on {chosen.data.validate}, epoch {best.epoch}.")
    if collection.left_out:
        _say(summary(collection.left_out))
    _say(f"Measure it: vsepp evaluate {into} --data {data}")


@verb
def evaluate(
    snapshot: Annotated[Path, typer.Argument(help="A folder that vsepp train made.")],
    data: Data,
    split: Annotated[str, typer.Option(help="The split to measure on.")] = "test",
    protocol: Annotated[str, typer.Option(help="full, 1k, 5x1k or 5k.")] = "full",
    changes: Changes = None,
    as_json: Json = False,
) -> None:
    """R@K of a snapshot, in the paper's columns."""
    from vsepp.evaluation.report import text
    from vsepp.experiments.measure import measure
    from vsepp.experiments.opening import summary

    result, left_out = measure(snapshot, data, split, protocol, _on_error(changes))
    if left_out:
        _say(summary(left_out))
    if not _speaks():
        return
    print(json.dumps(result.as_dict()) if as_json else text([(snapshot.name, result)]))


@verb
def reproduce(
    row: Annotated[
        str, typer.Argument(help="A row of the paper such as 1.11, table:2, or a recipe.")
    ],
    data: Data,
    into: Annotated[Path, typer.Option(help="Where runs and result files go.")] = Path("runs"),
    changes: Changes = None,
    as_json: Json = False,
) -> None:
    """Train what a row of the paper or a recipe needs, measure it, and compare."""
    from vsepp.experiments.reproduce import reproduce as reproduce_row

    report = reproduce_row(row, data, into, changes or ())
    if _speaks():
        print(json.dumps(report.as_dict()) if as_json else report.text())


@verb
def recipes(as_json: Json = False) -> None:
    """The recipes: our own, and the rows of the paper that its authors trained."""
    from vsepp.experiments.catalogue import paper_rows, text

    print(json.dumps(paper_rows()) if as_json else text())


@verb
def data(
    path: Annotated[str, typer.Argument(help="A path, or shapes:N for the built-in world.")],
    as_json: Json = False,
) -> None:
    """Say what a path is taken for, what is in it, and what it lacks for which recipe."""
    from vsepp.experiments.readiness import describe

    description = describe(path)
    print(json.dumps(description.as_dict()) if as_json else description.text())


@verb
def precompute(
    data: Annotated[str, typer.Argument(help="A path, or shapes:N for the built-in world.")],
    backbone: Annotated[str, typer.Option(help="The net: any of timm's, such as resnet152.")],
    into: Annotated[Path, typer.Option(help="Where the features and captions go.")],
    crops: Annotated[int, typer.Option(help="1: the middle; 10: the mean of ten crops.")] = 1,
    changes: Changes = None,
) -> None:
    """Features of a frozen net, once and for all: train on them in minutes."""
    from vsepp.experiments.keys import read_keys
    from vsepp.experiments.opening import open_checked, summary
    from vsepp.experiments.precompute import PrecomputeKeys, precompute

    keys = read_keys(PrecomputeKeys, changes or ())
    collection = open_checked(data, keys.data.on_error)
    _say(f"Taken for {collection.name}.")
    for split, pictures in precompute(collection, backbone, crops, into, keys.model).items():
        _say(f"  {split:<8}{pictures:>9,} pictures")
    if collection.left_out:
        _say(summary(collection.left_out))
    _say(f"Train on them: vsepp train features --data {into} --into DIR")


@verb
def import_(
    checkpoint: Annotated[Path, typer.Argument(help="The authors' model_best.pth.tar.")],
    vocabulary: Annotated[Path, typer.Option(help="Its words: coco_vocab.pkl, or a JSON file.")],
    into: Annotated[Path, typer.Option(help="Where the snapshot goes.")],
) -> None:
    """Make a snapshot of a model that the authors released, without running anything of it."""
    from vsepp.encoders.released import read_release

    snapshot = read_release(checkpoint, vocabulary)
    snapshot.save(into)
    plan = snapshot.architecture
    _say(f"{plan.backbone}, {plan.dim} dimensions, {plan.num_words:,} words, {plan.similarity}.")
    _say(f"Measure it: vsepp evaluate {into} --data DATA")


@verb
def shorten(
    snapshot: Annotated[Path, typer.Argument(help="A folder that vsepp train made.")],
    data: Data,
    dim: Annotated[int, typer.Option(help="Numbers of a vector that are kept.")],
    into: Annotated[Path, typer.Option(help="Where the shorter snapshot goes.")],
    half: Annotated[bool, typer.Option("--half", help="Store weights in 16 bits.")] = False,
) -> None:
    """The same model with shorter vectors: a smaller, faster collection at nearly the same recall."""
    from vsepp.experiments.opening import open_checked
    from vsepp.experiments.shortening import shorten as shorten_snapshot

    before, after = shorten_snapshot(snapshot, open_checked(data, "stop"), dim, into, half)
    _say(f"rsum {before.rsum:.1f} before and {after.rsum:.1f} with {dim} dimensions, on val.")


@verb
def embed(
    snapshot: Annotated[Path, typer.Argument(help="A folder that vsepp train made.")],
    into: Annotated[Path, typer.Option(help="FILE.npy; the names of its rows go to FILE.json.")],
    images: Annotated[Path | None, typer.Option(help="A folder of pictures.")] = None,
    captions: Annotated[Path | None, typer.Option(help="A text file, one caption a line.")] = None,
) -> None:
    """Vectors of pictures or captions as a NumPy file, without torch."""
    from vsepp.search.embedder import embed_captions_file, embed_folder, load

    if (images is None) == (captions is None):
        raise WrongRequest("Give either --images DIR or --captions FILE.")
    if into.suffix != ".npy" or into.with_suffix(".json") == captions:
        raise WrongRequest(f"--into {into}: name a file FILE.npy; FILE.json is written beside it.")
    embedder = load(snapshot)
    if images is not None:
        count = embed_folder(embedder, images, into)
    elif captions is not None:
        count = embed_captions_file(embedder, captions, into)
    _say(f"{count:,} vectors of {embedder.dim} dimensions in {into}.")


@verb
def index(
    photos: Annotated[
        str, typer.Argument(help="A folder of photos, or of tar or parquet shards; s3://... too.")
    ],
    into: Annotated[
        str, typer.Option(help="The collection: a file, or milvus://HOST/NAME; made if not there.")
    ],
    model: Model = None,
    prune: Annotated[bool, typer.Option("--prune", help="Drop photos that are gone.")] = False,
    on: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where to embed: ray://local, ray://HEAD:10001."),
    ] = None,
) -> None:
    """Make photos searchable; called again, it adds what is new or changed."""
    from vsepp.search.collection import Collection
    from vsepp.search.embedder import load
    from vsepp.search.places import address, check_that_it_is_there
    from vsepp.search.progress import watched

    check_that_it_is_there(photos)
    warnings.simplefilter("ignore")  # Pillow's, about odd files: what matters is in the report
    with Collection.open_or_create(into, load(model) if model else None) as collection:
        report = watched(collection.adding(photos, prune, on))
        _say(f"{len(collection):,} photos in {into}: {report}.")
    for broken in report.broken:
        _say(f"broken: {address(broken.path)}: {broken.reason}")


@verb
def search(
    collection: Place,
    text: Annotated[str | None, typer.Argument(help=QUERY_LANGUAGE)] = None,
    image: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Photos like this one.")
    ] = None,
    captions: Annotated[
        Path | None, typer.Option(help="Rank the lines of this file by --image, not photos.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Hits at most.")] = 10,
    min_score: Annotated[
        float | None, typer.Option(help="Leave out what scores less, not what chance explains.")
    ] = None,
    fold: Annotated[bool, typer.Option("--fold", help="Show near-duplicates once.")] = False,
    model: Model = None,
    index: IndexUrl = None,
    as_json: Json = False,
    show: Annotated[bool, typer.Option("--open", help="Show the hits in the browser.")] = False,
) -> None:
    """Find photos by words, by a photo or by both."""
    from vsepp.search.collection import Collection
    from vsepp.search.contact_sheet import show as show_page
    from vsepp.search.embedder import load

    with Collection.open(collection, load(model) if model else None, index) as photos:
        if captions is not None:
            found = photos.captions(image, captions, k)
        else:
            found = photos.search(text, image=image, k=k, min_score=min_score, fold=fold)
    for note in found.notes():
        _say(note)
    if show:
        _say(f"Shown in the browser: {show_page(found)}")
    if as_json:
        print(json.dumps(found.as_dict()))
    elif found.hits:
        # Bytes: a name that is no valid UTF-8 comes out as it is, ready for another program.
        sys.stdout.buffer.write(os.fsencode(f"{found.table()}\n"))


@verb
def serve(
    collection: Place,
    host: Annotated[
        str, typer.Option(help="0.0.0.0 lets other machines in; they need the token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="VSEPP_TOKEN",
            help="What visitors must know; made up and shown where other machines are let in.",
        ),
    ] = None,
    show: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open", help="Open the page in the browser; default: in a terminal."
        ),
    ] = None,
    model: Model = None,
    index: IndexUrl = None,
) -> None:
    """Search a collection in the browser, and over REST, until Ctrl-C."""
    show = sys.stdout.isatty() if show is None else show
    _serve(collection, host, port, token, show, model, index)


def _serve(
    collection: Path | str,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    show: bool = True,
    model: Path | None = None,
    index: str | None = None,
) -> None:
    from vsepp.search.collection import Collection
    from vsepp.search.embedder import load
    from vsepp.service.serve import serve

    with Collection.open(collection, load(model) if model else None, index) as photos:
        serve(photos, host, port, token, show)


figure = partial(verb, among=figures)


@figure
def curves(
    runs: Annotated[list[Path], typer.Argument(help="Folders that vsepp train wrote into.")],
    into: IntoFolder,
) -> None:
    """Learning curves of some runs, and how their losses behave (Fig. 2, Sec. 3.6)."""
    from vsepp.experiments.figures import curves

    _name(curves(runs, into))


@figure
def negatives(
    snapshot: Annotated[Path, typer.Argument(help="A folder that vsepp train made.")],
    data: Data,
    into: IntoFolder,
    split: Annotated[str, typer.Option(help="The split that the batch is drawn from.")] = "train",
    seed: Seed = 0,
    changes: Changes = None,
) -> None:
    """Hard negatives in a random batch of 128, and what they cost (Fig. 3)."""
    from vsepp.experiments.figures import negatives

    _name(negatives(snapshot, data, into, split, seed, _on_error(changes)))


@figure
def compare(
    snapshots: Annotated[list[Path], typer.Argument(help="Two folders that vsepp train made.")],
    data: Data,
    into: IntoFolder,
    split: Annotated[str, typer.Option(help="The split that is searched.")] = "test",
    seed: Seed = 0,
    changes: Changes = None,
) -> None:
    """The captions that two models rank first for the same pictures (Fig. A.1)."""
    from vsepp.experiments.figures import compare

    _name(compare(snapshots, data, into, split, seed, _on_error(changes)))


def _on_error(changes: list[str] | None) -> "OnError":
    from vsepp.experiments.keys import read_keys
    from vsepp.experiments.opening import UseKeys

    return read_keys(UseKeys, changes or ()).data.on_error


def _name(figure: "Figure") -> None:
    for remark in figure.remarks:
        _say(remark)
    print(figure.drawing)
    print(figure.page)


def _speaks() -> bool:
    """torchrun numbers the processes that it starts; one of them speaks for all."""
    return _rank() == "0"


def _rank() -> str:
    return os.environ.get("RANK", "0") if "WORLD_SIZE" in os.environ else "0"


def _say(text: str) -> None:
    if _speaks():
        print(text, file=sys.stderr)


def _complain(reason: object) -> None:
    """In full once; but other processes may have reasons of their own: a disk, a path, a GPU."""
    if _speaks():
        _say(f"vsepp: {reason}")
    else:
        print(f"vsepp (process {_rank()}): {str(reason).splitlines()[0]}", file=sys.stderr)
