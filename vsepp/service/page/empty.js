// What is shown where there are no photos, or no more: why, and what one can do.

import { byId, make } from "./make.js";
import { wordsOf } from "./filters.js";
import { listed, many, quoted, score } from "./words.js";

const place = byId("empty");
const SAMPLE = 12; // words that the model knows

function say(title, ...rest) {
  place.replaceChildren(make("h2", {}, title), ...rest);
  place.hidden = false;
}

const button = (text, onclick, look = "chip strong") => make("button", { type: "button", class: look, onclick }, text);

export function hideEmpty() {
  place.hidden = true;
  place.classList.remove("tail");
}

/** Nothing at all was found. `actions` change the query. */
export function nothing(answer, collection, actions) {
  hideEmpty();
  if (!collection?.photos && !answer.query && !answer.like) {
    return say("No photos yet", make("p", {}, "Add some, and they show up here: ", make("code", {}, "vsepp index PHOTOS --into COLLECTION")));
  }
  if (answer.unknown_words.length && answer.min_score === null) return unknown(answer, collection, actions);
  const filtered = answer.parts.some((part) => part.filter);
  const unfilter = (look) => button("Remove the filters", () => actions.words(wordsOf(answer.parts)), look);
  if (!hasCutoff(answer)) return say("No photos here", make("p", {}, "No photo passes the filters."), unfilter());
  say("Nothing fits well enough",
    make("p", {}, `No photo${filtered ? " that passes the filters" : ""} scores ${score(answer.min_score)}. Random words reach that here by chance, so what scores less says little.`),
    make("p", { class: "samples" }, button("Show the nearest anyway", actions.nearest), ...(filtered ? [unfilter("chip")] : [])));
}

/** Whether hits may have been left out because they score too little. */
const hasCutoff = (answer) => answer.min_score !== null && answer.min_score > -1e6;

function unknown(answer, collection, actions) {
  const one = answer.unknown_words.length === 1;
  const known = (collection?.words ?? []).slice(0, SAMPLE);
  say(`The model has never seen ${one ? "this word" : "these words"}`,
    make("p", {}, `It does not know ${listed(answer.unknown_words.map(quoted))}.${known.length ? " It knows words such as these:" : ""}`),
    make("p", { class: "samples" }, ...known.map((word) => make("button", { type: "button", class: "chip", onclick: () => actions.words(word) }, word))));
}

/** All that fits has been shown. */
export function tail(answer, count, actions) {
  hideEmpty();
  if (!hasCutoff(answer)) return;
  place.classList.add("tail");
  say(`${many(count, "photo")} that ${count === 1 ? "fits" : "fit"} better than chance`, button("Show the nearest ones, too", actions.nearest));
}

/** The service asks for its token. What is looked for stays in the address. */
export function locked() {
  hideEmpty();
  const asked = new URLSearchParams(location.search);
  const refused = asked.has("refused");
  const field = make("input", { type: "password", name: "token", "aria-label": "Token", autocomplete: "current-password", required: true, "aria-invalid": refused && "true" });
  const kept = [...asked].filter(([name]) => name !== "token" && name !== "refused");
  say("This collection is private",
    ...(refused ? [make("p", { class: "wrong", role: "alert" }, "That is not its token.")] : []),
    make("p", {}, "Open the link that vsepp serve has printed in its terminal, or enter the token."),
    make("form", { class: "asked", action: "./", method: "get" }, ...kept.map(([name, value]) => make("input", { type: "hidden", name, value })),
      field, make("button", { type: "submit", class: "chip strong" }, "Enter")));
  field.focus();
}
