"""A page about one's own data as a test of retrieval: people would rather look than read."""

from html import escape

from vsepp.evaluation.audit.findings import Audit, Fit, Leak, Unanswered
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.measurement import Measurement
from vsepp.evaluation.reports.forms import Table, render
from vsepp.evaluation.reports.page import Photos, cards, page, section
from vsepp.evaluation.reports.tables import report_tables

SHOWN = 8  # cards of a kind
WORDS = 24


def audit_page(found: Audit, embeddings: Embeddings, result: Measurement, photos: Photos) -> str:
    return page(
        f"{embeddings.data or 'The data'}, looked at with {result.name}",
        result.signature,
        [
            _summary(found, embeddings),
            render(report_tables(result)[:1], "html"),
            _leaks(found, photos),
            _repeated(found, embeddings, photos),
            _fits(found, embeddings, photos),
            _unanswered(found, embeddings, photos),
            _confusions(found, embeddings, photos),
            _words(found),
        ],
    )


def summary_table(found: Audit, embeddings: Embeddings) -> Table:
    """The counts, for a terminal or the head of the page."""
    images, captions = embeddings.num_images, embeddings.num_captions
    same = len({leak.key for leak in found.leaks if leak.is_same})
    rows = [
        ["photos that are in another split, too", _of(same, images)],
        [
            "photos with a near-duplicate in another split",
            _of(len({x.key for x in found.leaks}), images),
        ],
        ["captions that are in another split word by word", _of(found.leaked_texts, captions)],
        ["texts that several photos have", f"{len(found.repeated):,}"],
        ["captions that fit another photo as well", _of(len(found.fits), captions)],
        [
            "caption queries that no model answers in its first ten",
            _of(found.num_unanswered["images"], captions),
        ],
        [
            "photo queries that no model answers in its first ten",
            _of(found.num_unanswered["captions"], images),
        ],
    ]
    return Table("At a glance", ("", "found"), rows)


def _of(number: int, total: int) -> str:
    return f"{number:,} of {total:,} ({number / max(1, total):.1%})"


def _summary(found: Audit, embeddings: Embeddings) -> str:
    return render([summary_table(found, embeddings)], "html")


def _leaks(found: Audit, photos: Photos) -> str:
    def card(leak: Leak) -> str:
        mine = photos.figure(leak.key, f"here: {leak.key}")
        other = photos.figure(leak.other, f"{leak.split}: {leak.other}")
        text = "the same" if leak.is_same else "nearly the same"
        return f"<p>{text}, {leak.bits} of 256 bits differ</p><div class=row>{mine}{other}</div>"

    shown = [card(leak) for leak in found.leaks[:SHOWN]]
    return section(
        "Leaks between splits",
        "Photos of this split that a model may have learned from in another one.",
        cards(shown, small=True),
    )


def _repeated(found: Audit, embeddings: Embeddings, photos: Photos) -> str:
    shown = []
    for text, images in list(found.repeated.items())[:SHOWN]:
        figures = "".join(photos.figure(embeddings.image_ids[i]) for i in images[:4])
        shown.append(
            f"<p>{escape(text)}<br><small>{len(images)} photos</small></p><div class=row>{figures}</div>"
        )
    remark = "One text, several photos: only one of them counts as right each time."
    return section("Texts that several photos have", remark, cards(shown, small=True))


def _fits(found: Audit, embeddings: Embeddings, photos: Photos) -> str:
    def card(fit: Fit) -> str:
        own = photos.figure(
            embeddings.image_ids[embeddings.owners[fit.caption]], "its photo", right=True
        )
        others = "".join(photos.figure(embeddings.image_ids[i]) for i in fit.others[:3])
        text = escape(embeddings.texts[fit.caption])
        return f"<p>{text}<br><small>rank {fit.rank}</small></p><div class=row>{own}{others}</div>"

    remark = (
        "The model ranks other photos ahead, and the captions of these have as many words in common "
        "with the query as those of its own photo."
    )
    shown = [card(fit) for fit in found.fits[:SHOWN]]
    return section("Captions that fit several photos", remark, cards(shown))


def _unanswered(found: Audit, embeddings: Embeddings, photos: Photos) -> str:
    def card(one: Unanswered) -> str:
        if one.direction == "images":
            image = int(embeddings.owners[one.query])
            text = (
                embeddings.texts[one.query]
                if embeddings.texts
                else embeddings.caption_ids[one.query]
            )
        else:
            image, text = one.query, "This photo's captions"
        figure = photos.figure(embeddings.image_ids[image], f"best rank {one.best_rank:,}")
        return f"<div class=row>{figure}<div class=texts>{escape(text)}</div></div>"

    each = [
        [x for x in found.unanswered if x.direction == way][:SHOWN]
        for way in ("images", "captions")
    ]
    shown = [card(one) for some in each for one in some]
    remark = "The worst ranks, each by the model that does best: wrong captions, unusual words, odd crops."
    return section("Queries that no model answers", remark, cards(shown, small=True))


def _confusions(found: Audit, embeddings: Embeddings, photos: Photos) -> str:
    shown = []
    for pair in found.confusions[:SHOWN]:
        figures = "".join(photos.figure(embeddings.image_ids[i]) for i in (pair.image, pair.other))
        shown.append(
            f"<p>{pair.captions} captions rank the other photo ahead</p><div class=row>{figures}</div>"
        )
    remark = "Two photos that are taken for each other most often."
    return section("Most confusing pairs", remark, cards(shown, small=True))


def _words(found: Audit) -> str:
    rows = [[one.word, f"{one.recall:.0f}", f"{one.captions:,}"] for one in found.words[:WORDS]]
    head = ("word", "image R@10", "captions")
    return render([Table("Words with the worst recall", head, rows)], "html")
