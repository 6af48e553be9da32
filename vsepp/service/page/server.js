// Everything that is asked of the service.

/** The service answered, and refused: a reason for the user. */
export class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

/** The service did not answer at all. */
export class Gone extends Error {}

async function ask(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Gone("The service does not answer.");
  }
  const content = await answer.json().catch(() => null);
  if (answer.ok && content) return content;
  throw new Refused(answer.status, content?.reason ?? `The service answered ${answer.status}.`);
}

/** One page of hits; `upload` is a file, or nothing. */
export function search({ q, like, fold, nearest }, upload, offset, limit, signal) {
  const asked = new URLSearchParams({ q, offset, limit });
  if (like) asked.set("like", like);
  if (fold) asked.set("fold", "true");
  if (nearest) asked.set("min_score", "-1e9");
  if (!upload) return ask(`api/search?${asked}`, { signal });
  const body = new FormData();
  body.set("photo", upload);
  return ask(`api/search?${asked}`, { method: "POST", body, signal });
}

export const collection = () => ask("api/collection");
export const health = () => ask("api/health");

export function thumbnail(photo, side) {
  return `api/photos/${photo.key}/thumbnail?side=${side}&version=${photo.version}`;
}

export const original = (photo) => `api/photos/${photo.key}/file`;
