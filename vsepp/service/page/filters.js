// Chips for folder and time. They show the filters of the query, which the service has parsed, and edit its
// text. A part of a query is {text, filter, value}: the text as typed; words have no filter.

import { byId, icon, make } from "./make.js";

const NAMES = { in: "Folder", "-in": "Not in", after: "After", before: "Before" };
const CROSS = "m8 8 8 8M16 8l-8 8";
const place = byId("filters");
const dialog = byId("popover");

/** The words of a query without its filters. */
export const wordsOf = (parts) => parts.filter((part) => !part.filter).map((part) => part.text).join(" ");

/** A query without one of its parts. */
function without(query, part) {
  const padded = ` ${query} `;
  const apart = padded.includes(` ${part.text} `); // or it would be cut out of another word
  return (apart ? padded.replace(` ${part.text} `, " ") : query.replace(part.text, "")).trim();
}

/** `text` returns the query, `change` is called with a new one; `folders` returns [{folder, photos}]. */
export class Filters {
  #parts = [];

  constructor(text, change, folders) {
    this.text = text;
    this.change = change;
    this.folders = folders;
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  }

  show(parts) {
    this.#parts = parts;
    const set = parts.filter((part) => part.filter);
    const free = ["in", "after", "before"].filter((name) => !set.some((part) => part.filter === name));
    place.replaceChildren(...set.map((part) => this.#active(part)), ...free.map((name) => this.#offered(name)));
  }

  /** Filter by a value, instead of another one of the same kind. */
  set(name, value, change = this.change) {
    const clean = value.replaceAll('"', "").trim();
    if (!clean) return;
    const part = { text: `${name}:${/\s/.test(clean) ? `"${clean}"` : clean}`, filter: name, value: clean };
    const same = this.#parts.filter((other) => other.filter === name);
    const kept = same.reduce(without, this.text());
    this.show([...this.#parts.filter((other) => other.filter !== name), part]);
    change(`${kept} ${part.text}`.trim());
  }

  #active(part) {
    const remove = () => {
      this.show(this.#parts.filter((other) => other !== part));
      this.change(without(this.text(), part));
      (place.querySelector(`[data-filter="${part.filter}"]`) ?? byId("words")).focus();
    };
    const label = `Remove the filter: ${NAMES[part.filter]} ${part.value}`;
    return make("button", { type: "button", class: "chip on", "aria-label": label, onclick: remove },
      make("span", { class: "kind" }, NAMES[part.filter]), ` ${part.value} `, icon(CROSS));
  }

  #offered(name) {
    return make("button", { type: "button", class: "chip", "data-filter": name, "aria-haspopup": "dialog", onclick: () => this.#ask(name) }, NAMES[name]);
  }

  #ask(name) {
    byId("popover-title").textContent = name === "in" ? "In which folder?" : `Taken ${name} which day?`;
    const field = make("input", name === "in"
      ? { type: "text", "aria-labelledby": "popover-title", placeholder: "2019/beach", maxlength: "200" }
      : { type: "date", "aria-labelledby": "popover-title", max: "9999-12-31" });
    const body = make("div", { class: "asked" }, field, make("button", { type: "submit", class: "chip strong" }, "Filter"));
    byId("popover-body").replaceChildren(body);
    if (name === "in") byId("popover-body").append(this.#folderList(field));
    byId("popover-form").onsubmit = () => this.set(name, field.value);
    dialog.showModal();
    field.focus();
  }

  #folderList(field) {
    const list = make("ul", { class: "folders", "aria-label": "Folders" });
    const fill = () => {
      const part = field.value.toLowerCase();
      const fitting = this.folders().filter(({ folder }) => folder.toLowerCase().includes(part));
      list.replaceChildren(...fitting.map(({ folder, photos }) => make("li", {},
        make("button", { type: "button", onclick: () => { dialog.close(); this.set("in", folder); } },
          make("span", {}, folder), make("span", { class: "count" }, String(photos))))));
    };
    field.addEventListener("input", fill);
    fill();
    return list;
  }
}
