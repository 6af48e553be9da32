// The address says what is looked for, so that the back button and bookmarks work.

const FLAGS = ["fold", "nearest"];

export function read() {
  const given = new URLSearchParams(location.search);
  const sought = { q: given.get("q") ?? "", like: given.get("like") ?? "", upload: given.get("upload") ?? "" };
  for (const flag of FLAGS) sought[flag] = given.get(flag) === "1";
  return sought;
}

function written(sought) {
  const given = new URLSearchParams();
  for (const name of ["q", "like", "upload"]) if (sought[name]) given.set(name, sought[name]);
  for (const flag of FLAGS) if (sought[flag]) given.set(flag, "1");
  const text = given.toString();
  return text ? `?${text}` : location.pathname;
}

/** A new entry in the history. */
export function push(sought) {
  history.pushState({}, "", written(sought));
}

/** The same entry, changed. */
export function replace(sought) {
  history.replaceState({}, "", written(sought));
}
