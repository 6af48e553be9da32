// Wires the page together: what is sought, what was found, and what to show of it.

import * as address from "./address.js";
import { isBack, whenBack } from "./connection.js";
import { hideEmpty, locked, nothing, tail } from "./empty.js";
import { Filters, wordsOf } from "./filters.js";
import { Grid } from "./grid.js";
import { byId } from "./make.js";
import * as server from "./server.js";
import { acceptUploads, uploaded } from "./uploads.js";
import { Viewer } from "./viewer.js";
import { listed, many, quoted } from "./words.js";

const PAGE = 60; // photos at a time
const PAUSE = 160; // milliseconds without a key before a search begins
const BURST = 1500; // keys that follow each other within this time make one entry in the history
const AHEAD = "1400px"; // below the screen

const box = byId("words");
const grid = new Grid((index) => viewer.open(index), (photo) => follow({ like: photo.key, upload: "", nearest: false }));
const viewer = new Viewer({
  photos: () => grid.photos,
  nearEnd: () => loadMore(),
  closed: (index) => grid.focus(index),
  like: (photo) => follow({ like: photo.key, upload: "", nearest: false }, "replace"),
  folder: (photo) => filters.set("in", photo.folder, (q) => follow({ q }, "replace")),
});
const filters = new Filters(() => box.value, (q) => follow({ q, nearest: false }), () => collection?.folders ?? []);
const actions = {
  nearest: () => follow({ nearest: true }),
  words: (q) => follow({ q, nearest: false }),
};

let sought = address.read();
let collection = null;
let answer = null; // the last one
let running = null; // the search that is under way; another one aborts it
let loading = null; // the next page, while it is on its way
let typed = 0; // when the last key was pressed
let pause = 0;
let refusal = ""; // why a file was not taken: said until something else is sought

/** Look for something else. It is a new entry in the history, or takes the place of this one. */
function follow(change, how = "push") {
  sought = { ...sought, ...change };
  (how === "push" ? address.push : address.replace)(sought);
  search();
}

async function search() {
  clearTimeout(pause);
  running?.abort();
  const mine = (running = new AbortController());
  loading = null;
  refusal = "";
  if (sought.upload && !uploaded(sought.upload)) sought.upload = ""; // the page was loaded anew
  showSought();
  const slow = setTimeout(() => document.body.classList.add("busy"), 250);
  try {
    const found = await server.search(sought, uploaded(sought.upload), 0, PAGE, mine.signal);
    if (mine !== running) return; // something else is sought by now
    isBack();
    showAnswer(found);
  } catch (error) {
    if (mine === running) fail(error, search);
  } finally {
    clearTimeout(slow);
    if (mine === running) document.body.classList.remove("busy");
  }
}

async function loadMore() {
  if (!answer?.more || isLoading()) return loading;
  const mine = running;
  loading = server.search(sought, uploaded(sought.upload), answer.offset + PAGE, PAGE, mine.signal)
    .then((found) => {
      if (mine !== running) return;
      isBack();
      answer = found;
      grid.append(found.hits);
      showEnd();
    })
    .catch((error) => mine === running && fail(error, () => { loading = null; loadMore(); }))
    .finally(() => { if (mine === running) loading = null; });
  await loading;
  if (mine === running && nearEnd()) loadMore();
  return undefined;
}

const isLoading = () => loading !== null;

function showSought() {
  if (box.value.trim() !== sought.q.trim()) box.value = sought.q;
  byId("clear").hidden = !box.value && !sought.like && !sought.upload;
  byId("fold").setAttribute("aria-pressed", String(sought.fold));
  showSoughtPhoto();
  box.placeholder = sought.like || sought.upload ? "Add words" : "Describe a photo";
}

function showTitle(words) {
  const title = words || (sought.like || sought.upload ? "Photos like this" : "Photos");
  document.title = title;
  byId("title").textContent = title;
}

let shownPhoto = "";
function showSoughtPhoto() {
  const file = uploaded(sought.upload);
  const name = file ? `upload ${sought.upload}` : sought.like && `photo ${sought.like}`;
  byId("sought").hidden = !name;
  if (name === shownPhoto) return;
  shownPhoto = name;
  const picture = byId("sought-picture");
  if (picture.src.startsWith("blob:")) URL.revokeObjectURL(picture.src);
  picture.hidden = false;
  picture.onerror = () => (picture.hidden = true); // a format that this browser does not show
  if (name) picture.src = file ? URL.createObjectURL(file) : `api/photos/${sought.like}/thumbnail`;
}

function showAnswer(found) {
  answer = found;
  filters.show(found.parts);
  showTitle(wordsOf(found.parts));
  hideEmpty();
  notify(refusal || (found.min_score === null ? "" : aboutWords(found)));
  grid.replace(found.hits);
  scrollTo({ top: 0, behavior: "instant" });
  showEnd();
  if (nearEnd()) loadMore();
}

function aboutWords({ unknown_words: unknown, taken_for: taken }) {
  const instead = Object.entries(taken).map(([word, known]) => `${quoted(word)} for ${quoted(known)}`);
  return [
    instead.length ? `Taking ${listed(instead)}.` : "",
    unknown.length ? `The model does not know ${listed(unknown.map(quoted))}, and looked for the rest.` : "",
  ].filter(Boolean).join(" ");
}

function showEnd() {
  const count = grid.photos.length;
  if (!count) nothing(answer, collection, actions);
  else if (!answer.more) tail(answer, count, actions);
  byId("status").textContent = status(count);
}

function status(count) {
  const compared = answer.min_score !== null;
  if (!count) return sought.q || sought.like || sought.upload ? "Nothing found." : "";
  if (!compared && !sought.q) return `${many(Math.max(collection?.photos ?? 0, count), "photo")}, newest first`;
  if (!compared) return answer.more ? "Newest first" : `${many(count, "photo")}, newest first`;
  return answer.more ? "Best first" : `${many(count, "photo")}, best first`;
}

function fail(error, again) {
  if (error.name === "AbortError") return;
  if (error instanceof server.Gone) return whenBack(again);
  if (error.status === 401) {
    grid.replace([]);
    byId("status").textContent = "The token is needed.";
    return locked();
  }
  notify(error.message);
  return undefined;
}

function refuse(reason) {
  refusal = reason;
  notify(reason);
}

function notify(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

function nearEnd() {
  return byId("end").getBoundingClientRect().top < innerHeight + parseInt(AHEAD);
}

async function introduce() {
  try {
    collection = await server.collection();
    if (answer) showEnd();
  } catch (error) {
    if (error instanceof server.Gone) setTimeout(introduce, 3000);
  }
}

// ---- what the user does -------------------------------------------------------------------------

box.addEventListener("input", () => {
  byId("clear").hidden = !box.value && !sought.like && !sought.upload;
  clearTimeout(pause);
  pause = setTimeout(() => {
    const now = performance.now();
    const sameBurst = now - typed < BURST;
    typed = now;
    follow({ q: box.value, nearest: false }, sameBurst ? "replace" : "push");
  }, PAUSE);
});

byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(pause);
  typed = 0;
  if (box.value !== sought.q) follow({ q: box.value, nearest: false });
  else if (!byId("notice").hidden) search(); // once more
  if (matchMedia("(hover: none)").matches) box.blur(); // the phone's keyboard hides the photos
});

byId("clear").addEventListener("click", () => {
  box.value = "";
  follow({ q: "", like: "", upload: "", nearest: false });
  box.focus();
});

byId("sought-remove").addEventListener("click", () => {
  follow({ like: "", upload: "", nearest: false });
  box.focus();
});

byId("fold").addEventListener("click", () => follow({ fold: !sought.fold }));

byId("scores").addEventListener("click", () => showScores(!document.body.classList.contains("scored")));

function showScores(are) {
  document.body.classList.toggle("scored", are);
  byId("scores").setAttribute("aria-pressed", String(are));
  localStorage.setItem("scores", are ? "1" : "");
}

document.addEventListener("keydown", (event) => {
  const busy = event.altKey || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]");
  if (event.key !== "/" || busy || event.target.matches("input, textarea")) return;
  event.preventDefault();
  box.focus();
  box.select();
});

box.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" && grid.photos.length) {
    event.preventDefault();
    grid.focus(0);
  } else if (event.key === "Escape" && !box.value) box.blur();
});

addEventListener("popstate", () => {
  if (viewer.isOpen && !history.state?.viewer) viewer.close();
  const asked = address.read();
  if (JSON.stringify(asked) === JSON.stringify(sought)) return;
  sought = asked;
  typed = 0;
  search();
});

acceptUploads(
  (upload) => {
    const file = uploaded(upload);
    if (collection && file.size > collection.upload_bytes) {
      refuse(`${file.name} is too large: at most ${Math.round(collection.upload_bytes / 1e6)} MB.`);
    } else follow({ upload, like: "", nearest: false });
  },
  refuse,
);

new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && loadMore(), { rootMargin: AHEAD })
  .observe(byId("end"));

showScores(localStorage.getItem("scores") === "1");
filters.show([]);
introduce();
search();
