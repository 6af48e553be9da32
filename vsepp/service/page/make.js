// Elements in one expression. Text is always text, never markup.

export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") element.addEventListener("click", value);
    else if (value !== false && value !== null) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function icon(...paths) {
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("viewBox", "0 0 24 24");
  drawing.setAttribute("class", "icon");
  drawing.setAttribute("aria-hidden", "true");
  for (const path of paths) {
    const line = document.createElementNS(SVG, "path");
    line.setAttribute("d", path);
    drawing.append(line);
  }
  return drawing;
}

export const byId = (id) => document.getElementById(id);
