"""Arguments and options of `vsepp evaluate`, `compare` and `audit`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

OptionalSnapshot = Annotated[Path | None, typer.Argument(help="A folder that vsepp train made.")]
OptionalData = Annotated[
    str | None, typer.Option("--data", help="A path, or shapes:N for the built-in world.")
]
Split = Annotated[str, typer.Option(help="The split to measure on.")]
Protocol = Annotated[str, typer.Option(help="full, 1k, 5x1k or 5k.")]
Models = Annotated[
    list[str],
    typer.Argument(
        help="Models: PATH or NAME=PATH; a folder that vsepp train made, or one of vectors. "
        "Several paths with commas between are seeds of one model."
    ),
]
Images = Annotated[
    Path | None, typer.Option(help="Vectors of images: .npy, .npz, .safetensors, .parquet.")
]
Captions = Annotated[Path | None, typer.Option(help="Vectors of captions.")]
Scores = Annotated[
    Path | None, typer.Option(help="All scores (images, captions), instead of vectors.")
]
Ids = Annotated[
    Path | None,
    typer.Option(help="A table with a row for each caption: image_id,caption_id,caption."),
]
ImageIds = Annotated[Path | None, typer.Option(help="The id of each image vector, one a line.")]
Full = Annotated[
    bool, typer.Option("--full", help="All measures with their intervals, also of a model.")
]
Ks = Annotated[str, typer.Option("--k", help="The K of R@K, with commas.")]
Resamples = Annotated[int, typer.Option(help="Of the bootstrap over images.", min=100)]
Eccv = Annotated[
    str | None, typer.Option(help="ECCV Caption: `package`, or the folder of its json files.")
]
Cxc = Annotated[
    Path | None, typer.Option(help="Crisscrossed Captions: the folder of its csv files.")
]
Pmrp = Annotated[Path | None, typer.Option(help="COCO's instances_val2014.json.")]
Judgements = Annotated[
    Path | None, typer.Option(help="The folder of Flickr8k's judgements by experts and crowd.")
]
Probes = Annotated[
    list[str] | None,
    typer.Option(
        help="captions (words of --data exchanged), world (the built-in one), or a file of "
        "SugarCrepe, ARO, FOIL or Winoground. May be repeated."
    ),
]
Pictures = Annotated[Path | None, typer.Option(help="The pictures of the probes' file.")]
TableForm = Annotated[
    Literal["text", "markdown", "latex", "html"], typer.Option("--table", help="Of all tables.")
]
PerQuery = Annotated[
    Path | None, typer.Option(help="Write ranks and best items: .csv, .jsonl or .parquet.")
]
PerQueryFolder = Annotated[
    Path | None,
    typer.Option("--per-query", help="A folder for ranks and best items of each model."),
]
Name = Annotated[
    str, typer.Option(help="What tables call the model; by default its folder's name.")
]
SaveVectors = Annotated[Path | None, typer.Option(help="Write the vectors, to compare them later.")]
Page = Annotated[
    Path | None, typer.Option(help="Write a page that shows on which queries models differ.")
]
