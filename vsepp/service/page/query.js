// The language of the search box, as vsepp/search/query.py understands it:
//   two dogs -people in:2019/beach after:2020-05 before:2021 -"red car"
// The text is the truth. Filters are read from it, and written into it.

const TOKEN = /(-)?(?:(in|after|before):)?(?:"([^"]*)"?|(\S+))/gi;

/** The pieces of a query, in order: {text, name, value}; words have no name. */
export function pieces(text) {
  return Array.from(text.matchAll(TOKEN), ([whole, minus, filter, quoted, plain]) => ({
    text: whole,
    name: filter ? (minus ?? "") + filter.toLowerCase() : "",
    value: (quoted ?? plain ?? "").trim(),
  })).filter((piece) => piece.value);
}

/** The filters of a query, as they stand in it. */
export function filters(text) {
  return pieces(text).filter((piece) => piece.name);
}

/** What is left without filters. */
export function words(text) {
  return pieces(text).filter((piece) => !piece.name).map((piece) => piece.text).join(" ");
}

/** The query without one of its filters. */
export function without(text, name, value) {
  const kept = pieces(text).filter((piece) => piece.name !== name || piece.value !== value);
  return kept.map((piece) => piece.text).join(" ");
}

/** The query with a filter, which takes the place of another of its kind. */
export function withFilter(text, name, value) {
  const kept = pieces(text).filter((piece) => piece.name !== name).map((piece) => piece.text);
  return [...kept, written(name, value)].join(" ");
}

function written(name, value) {
  const clean = value.replaceAll('"', "").trim();
  return `${name}:${/\s/.test(clean) ? `"${clean}"` : clean}`;
}
