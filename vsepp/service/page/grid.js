// The photos in rows of equal height. Width and height are known before a picture comes: nothing jumps.

import { byId, icon, make } from "./make.js";
import { original, thumbnail } from "./server.js";
import { score, spoken } from "./words.js";

const NARROWEST = 0.6; // width / height: what is more extreme is cut at its edges
const WIDEST = 2.4;
const FEW = 4; // photos look lost at the left
const ALIKE = ["M4 8.5A2.5 2.5 0 0 1 6.5 6H15a2 2 0 0 1 2 2v7.5a2.5 2.5 0 0 1-2.5 2.5h-8A2.5 2.5 0 0 1 4 15.5z", "M8 3.5h9.5A2.5 2.5 0 0 1 20 6v9.5"];

const list = byId("photos");

/** `open` and `like` are told which photo was chosen. */
export class Grid {
  constructor(open, like) {
    this.photos = [];
    this.open = open;
    this.like = like;
    list.addEventListener("keydown", (event) => this.#move(event));
  }

  /** Who was among the photos stays among them: on the same one, or on the first. Without any, one can type. */
  replace(photos) {
    const focused = document.activeElement.closest(".tile")?.dataset.key;
    this.photos = [];
    list.replaceChildren();
    this.append(photos);
    if (!focused) return;
    if (photos.length) this.focus(Math.max(0, this.photos.findIndex((photo) => photo.key === focused)));
    else byId("words").focus();
  }

  /** Photos that are there already are left out: others may be added while one scrolls. */
  append(photos) {
    const known = new Set(this.photos.map((photo) => photo.key));
    const fresh = photos.filter((photo) => !known.has(photo.key));
    list.append(...fresh.map((photo) => this.#tile(photo)));
    this.photos.push(...fresh);
    list.classList.toggle("few", this.photos.length <= FEW);
  }

  focus(index) {
    const tile = list.children[index]?.querySelector(".open");
    tile?.focus({ preventScroll: true });
    tile?.scrollIntoView({ block: "nearest" });
  }

  #tile(photo) {
    const ratio = Math.min(WIDEST, Math.max(NARROWEST, photo.width / photo.height));
    const picture = make("img", {
      alt: "", loading: "lazy", decoding: "async", draggable: "false",
      src: thumbnail(photo, 320),
      srcset: `${thumbnail(photo, 320)} 320w, ${thumbnail(photo, 640)} 640w`,
      sizes: `${Math.round(Math.max(220 * ratio, 220))}px`,
      width: photo.width, height: photo.height,
    });
    const open = make("a", { class: "open", href: original(photo), "aria-label": `Open ${spoken(photo)}` }, picture);
    const like = make("button", { type: "button", class: "round like", "aria-label": `More like ${photo.name}`, title: "More like this" }, icon(...ALIKE));
    const tile = make("li", { class: "tile", "data-key": photo.key }, open, like);
    if (photo.score !== null) tile.append(make("span", { class: "score" }, score(photo.score)));
    if (photo.alike.length) tile.append(make("span", { class: "stack", title: "Near-duplicates are folded" }, `+${photo.alike.length}`));
    tile.style.setProperty("--ratio", ratio);
    picture.addEventListener("error", () => {
      tile.classList.add("missing");
      open.replaceChildren(make("span", {}, photo.name));
    });
    open.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // the original, in another tab
      event.preventDefault();
      this.open(this.photos.indexOf(photo));
    });
    like.addEventListener("click", () => this.like(photo));
    return tile;
  }

  #move(event) {
    const tile = event.target.closest?.(".tile");
    if (!tile || event.altKey || event.ctrlKey || event.metaKey) return;
    const index = Array.prototype.indexOf.call(list.children, tile);
    const steps = { ArrowRight: () => index + 1, ArrowLeft: () => index - 1, ArrowDown: () => this.#row(tile, 1), ArrowUp: () => this.#row(tile, -1), Home: () => 0, End: () => list.children.length - 1 };
    if (!steps[event.key]) return;
    event.preventDefault();
    this.focus(steps[event.key]());
  }

  /** The tile in the row above (-1) or below (+1) whose middle lies nearest. */
  #row(tile, direction) {
    const tiles = Array.from(list.children);
    const from = tile.getBoundingClientRect();
    const middle = (box) => box.left + box.width / 2;
    let row = null;
    let best = tiles.indexOf(tile);
    let distance = Infinity;
    for (let index = best + direction; tiles[index]; index += direction) {
      const box = tiles[index].getBoundingClientRect();
      if (Math.abs(box.top - from.top) < 2) continue;
      row ??= box.top;
      if (Math.abs(box.top - row) > 2) break;
      const away = Math.abs(middle(box) - middle(from));
      if (away < distance) [best, distance] = [index, away];
    }
    return best;
  }
}
