"""REST over a Collection (FastAPI), and the page that uses it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from vsepp.search.collection import Collection
from vsepp.service.body import LimitedBody
from vsepp.service.doors import OnlyOurPage, OnlyThisMachine, OnlyWithToken
from vsepp.service.folders import Folders
from vsepp.service.headers import SafeHeaders
from vsepp.service.limits import Limits
from vsepp.service.patience import Patience
from vsepp.service.pictures import Thumbnails
from vsepp.service.problems import answer_problems
from vsepp.service.routes import Counter, api

PAGE = Path(__file__).parent / "page"
VERSION = "1"  # of the interface


def create_app(
    collection: Collection, limits: Limits | None = None, token: str | None = None
) -> FastAPI:
    """Without a token, only requests to this machine by its own name are answered."""
    limits = limits or Limits()
    app = FastAPI(
        title="vsepp",
        summary="Find photos by words, by a photo, or by both.",
        version=VERSION,
        lifespan=_lifespan,
        docs_url=None,  # these pages would load their scripts from elsewhere
        redoc_url=None,
    )
    app.state.counter = Counter(
        collection,
        limits,
        Folders(collection),
        Thumbnails(limits.thumbnail_bytes),
        searching=Patience(limits.seconds, 4),
        opening=Patience(limits.seconds, 2),
    )
    app.include_router(api)
    app.mount("/", StaticFiles(directory=PAGE, html=True))
    answer_problems(app)
    # The last one is the first that a request meets.
    app.add_middleware(LimitedBody, max_bytes=limits.upload_bytes)
    if token is None:
        app.add_middleware(OnlyThisMachine)
    else:
        app.add_middleware(OnlyWithToken, token=token)
    app.add_middleware(OnlyOurPage)
    app.add_middleware(SafeHeaders)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.counter.searching.close()
    app.state.counter.opening.close()
