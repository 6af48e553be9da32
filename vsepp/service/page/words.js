// How things are said.

const NUMBER = new Intl.NumberFormat("en");
const DAY = new Intl.DateTimeFormat("en", { dateStyle: "long" });

export const many = (count, one, more = `${one}s`) => `${NUMBER.format(count)} ${count === 1 ? one : more}`;

export const quoted = (text) => `“${text}”`;

export const score = (value) => value.toFixed(3);

/** What the clock on the wall showed: it has no zone. */
export function day(taken) {
  const date = new Date(taken);
  return Number.isNaN(date.valueOf()) ? "" : DAY.format(date);
}

/** A photo, for those who hear it. */
export function spoken(photo) {
  return [photo.name, photo.folder, day(photo.taken)].filter(Boolean).join(", ");
}

export function listed(items) {
  if (items.length < 2) return items.join("");
  return `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
}
