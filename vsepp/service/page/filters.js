// Chips for folder and time. They show what the query says, and write into it.

import { byId, icon, make } from "./make.js";
import { filters, withFilter, without } from "./query.js";

const NAMES = { in: "Folder", "-in": "Not in", after: "After", before: "Before" };
const CROSS = "m8 8 8 8M16 8l-8 8";
const place = byId("filters");
const dialog = byId("popover");

/** `change` is told the new text of the query; `folders` gives [{folder, photos}]. */
export class Filters {
  #text = "";

  constructor(change, folders) {
    this.change = change;
    this.folders = folders;
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  }

  show(text) {
    this.#text = text;
    const set = filters(text).filter((filter) => NAMES[filter.name]);
    const free = ["in", "after", "before"].filter((name) => !set.some((filter) => filter.name === name));
    place.replaceChildren(...set.map((filter) => this.#active(filter)), ...free.map((name) => this.#offered(name)));
  }

  #active({ name, value }) {
    const remove = () => {
      this.change(without(this.#text, name, value));
      (place.querySelector(`[data-filter="${name}"]`) ?? byId("words")).focus();
    };
    const label = `Remove the filter: ${NAMES[name]} ${value}`;
    return make("button", { type: "button", class: "chip on", "aria-label": label, onclick: remove },
      make("span", { class: "kind" }, NAMES[name]), ` ${value} `, icon(CROSS));
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
    byId("popover-form").onsubmit = () => this.#set(name, field.value);
    dialog.showModal();
    field.focus();
  }

  #folderList(field) {
    const list = make("ul", { class: "folders", "aria-label": "Folders" });
    const fill = () => {
      const part = field.value.toLowerCase();
      const fitting = this.folders().filter(({ folder }) => folder.toLowerCase().includes(part));
      list.replaceChildren(...fitting.map(({ folder, photos }) => make("li", {},
        make("button", { type: "button", onclick: () => { dialog.close(); this.#set("in", folder); } },
          make("span", {}, folder), make("span", { class: "count" }, String(photos))))));
    };
    field.addEventListener("input", fill);
    fill();
    return list;
  }

  #set(name, value) {
    if (value.trim()) this.change(withFilter(this.#text, name, value));
  }
}
