// One photo, large. Arrows go on, Escape and the back button close.

import { byId } from "./make.js";
import { original, thumbnail } from "./server.js";
import { day, score } from "./words.js";

const dialog = byId("viewer");
const picture = byId("viewer-picture");
const FAR = 60; // pixels that a finger moves to turn the page

export class Viewer {
  #index = 0;
  #touched = null;

  /** `photos` are those of the grid; `nearEnd` fetches more; `closed` is told where one was. */
  constructor({ photos, nearEnd, closed, like, folder }) {
    Object.assign(this, { photos, nearEnd, closed });
    byId("viewer-previous").addEventListener("click", () => this.#step(-1));
    byId("viewer-next").addEventListener("click", () => this.#step(1));
    byId("viewer-close").addEventListener("click", () => this.#leave());
    byId("viewer-like").addEventListener("click", () => this.#choose(like));
    byId("viewer-folder").addEventListener("click", () => this.#choose(folder));
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      this.#leave();
    });
    dialog.addEventListener("keydown", (event) => this.#key(event));
    dialog.addEventListener("click", (event) => {
      if (event.target.matches(".stage, .viewer")) this.#leave();
    });
    dialog.addEventListener("pointerdown", (event) => (this.#touched = event.pointerType === "touch" ? event.clientX : null));
    dialog.addEventListener("pointerup", (event) => this.#swipe(event));
    picture.addEventListener("error", () => this.#missing(true));
  }

  get isOpen() {
    return dialog.open;
  }

  open(index) {
    history.pushState({ viewer: true }, "");
    this.#show(index);
    dialog.showModal();
    byId("viewer-close").focus();
  }

  close() {
    if (!dialog.open) return;
    dialog.close();
    picture.removeAttribute("src");
    this.closed(this.#index);
  }

  #leave() {
    if (history.state?.viewer) history.back(); // which closes it
    else this.close();
  }

  #choose(action) {
    const photo = this.photos()[this.#index];
    this.close();
    action(photo);
  }

  #step(by) {
    if (this.photos()[this.#index + by]) this.#show(this.#index + by);
  }

  #show(index) {
    const photos = this.photos();
    const photo = photos[index];
    this.#index = index;
    this.#missing(false);
    picture.src = thumbnail(photo, 1600);
    picture.alt = photo.name;
    picture.width = photo.width;
    picture.height = photo.height;
    byId("viewer-name").textContent = photo.name;
    byId("viewer-folder").textContent = photo.folder;
    byId("viewer-folder").setAttribute("aria-label", `Only photos in ${photo.folder}`);
    const facts = [day(photo.taken), `${photo.width} × ${photo.height}`];
    if (photo.score !== null) facts.push(`score ${score(photo.score)}`);
    byId("viewer-facts").textContent = facts.filter(Boolean).join(" · ");
    byId("viewer-facts").title = photo.path;
    byId("viewer-original").href = original(photo);
    byId("viewer-previous").disabled = index === 0;
    byId("viewer-next").disabled = index === photos.length - 1;
    if (photos[index + 1]) new Image().src = thumbnail(photos[index + 1], 1600);
    if (index > photos.length - 5) this.nearEnd().then(() => (byId("viewer-next").disabled = this.#index === this.photos().length - 1));
  }

  #missing(is) {
    picture.hidden = is;
    byId("viewer-missing").hidden = !is;
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    this.#step(by);
  }

  #swipe(event) {
    if (this.#touched === null) return;
    const moved = event.clientX - this.#touched;
    this.#touched = null;
    if (Math.abs(moved) > FAR) this.#step(moved < 0 ? 1 : -1);
  }
}
