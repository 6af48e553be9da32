// A photo to search with: dropped anywhere, pasted, or chosen. It stays in this tab's memory.

import { byId } from "./make.js";

const veil = byId("drop");
const kept = new Map();
let last = 0;

/** The photo of an address that was made in this tab; after a reload it is gone. */
export const uploaded = (id) => kept.get(id);

/** `take` is told the id of a photo, `refuse` why a file is none. */
export function acceptUploads(take, refuse) {
  const keep = (file) => {
    if (!file) return;
    // Browsers know no type for some formats: then the service tells.
    if (file.type && !file.type.startsWith("image/")) return refuse(`${file.name} is not a picture.`);
    kept.set(String(++last), file);
    take(String(last));
  };
  byId("choose").addEventListener("click", () => byId("file").click());
  byId("file").addEventListener("change", (event) => {
    keep(event.target.files[0]);
    event.target.value = ""; // or the same photo could not be chosen twice
  });
  document.addEventListener("paste", (event) => keep(pictureIn(event.clipboardData)));
  acceptDrops(keep);
}

function acceptDrops(keep) {
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  let inside = 0; // entering a child comes before leaving its parent
  const hide = () => {
    inside = 0;
    veil.hidden = true;
  };
  document.addEventListener("dragenter", (event) => {
    if (!carriesFiles(event)) return;
    inside += 1;
    veil.hidden = false;
  });
  document.addEventListener("dragleave", (event) => {
    if (carriesFiles(event) && --inside <= 0) hide();
  });
  document.addEventListener("dragover", (event) => carriesFiles(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    hide();
    keep(event.dataTransfer.files[0]);
  });
}

function pictureIn(clipboard) {
  return Array.from(clipboard?.files ?? []).find((file) => file.type.startsWith("image/"));
}
