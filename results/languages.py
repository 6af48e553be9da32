"""Recalls of a model on folders of captions in several languages, into results/world-languages.json.

    python results/languages.py NAME MODEL FOLDER [FOLDER ...]

NAME stands in the table, such as "the model in the box". FOLDERs are Flickr8k's shards of one language, as results/language_shards.py
writes them: .../de is German; a folder of any other name is English. Each is measured by `vsepp evaluate --json` on its test photos.
Another NAME adds rows to the file, the same one replaces its own.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("world-languages.json")
LANGUAGES = {"de": "German", "fr": "French", "cs": "Czech", "zh": "Chinese"}


def measured(model: Path, folder: Path) -> dict[str, Any]:
    command = ["vsepp", "evaluate", str(model), "--data", str(folder), "--split", "test", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", *command], check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    name, model, *folders = sys.argv[1], Path(sys.argv[2]), *map(Path, sys.argv[3:])
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    record[name] = {
        "megabytes": round((model / "model.safetensors").stat().st_size / 1e6, 1),
        "languages": {
            LANGUAGES.get(folder.name, "English"): measured(model, folder) for folder in folders
        },
    }
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    RECORD.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
