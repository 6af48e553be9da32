// When the service does not answer: say so, retry now and then, and continue where it was.

import { byId, make } from "./make.js";
import { Gone, health } from "./server.js";

const BETWEEN = 2000; // milliseconds
const toast = byId("gone");
let waiting = null;
let knocking = 0;

/** Do `again` when the service is back. */
export function whenBack(again) {
  waiting = again;
  if (!toast.hidden) return;
  toast.hidden = false;
  toast.replaceChildren(
    make("span", {}, "The service does not answer. Is vsepp serve running?"),
    make("button", { type: "button", class: "chip strong", onclick: knock }, "Try again"),
  );
  knocking = setInterval(knock, BETWEEN);
}

/** The service has answered: whatever was waited for has become pointless. */
export function isBack() {
  clearInterval(knocking);
  toast.hidden = true;
  waiting = null;
}

async function knock() {
  try {
    await health();
  } catch (error) {
    if (error instanceof Gone) return;
  }
  const again = waiting;
  isBack();
  again?.();
}
