// Saving what is shown: both drawings with the legend as SVG, all numbers as CSV. Made in the browser.

import { draw, frame, node } from "./drawing.js";
import { legend } from "./legend.js";
import { painted } from "./scale.js";
import { totals, views } from "./stage.js";

const GAP = 40;

function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Always on white paper, whatever the page looks like.
export function toSvg(answer, mode, limit) {
  const box = frame(answer.places);
  const width = Math.max(2 * box.width + GAP, 340);
  const height = box.height + 110;
  const values = painted(answer, mode);
  const sheet = node("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height, "font-family": "system-ui, sans-serif" },
    node("rect", { width, height, fill: "#ffffff" }));
  views(answer).forEach((view, side) => {
    const left = side * (width / 2 + GAP / 4);
    const heading = node("text", { x: left + 10, y: 20, "font-size": 13, fill: "#23282e" });
    heading.textContent = side === 0 ? "Original" : `Edited: ${totals(answer)}`;
    const picture = draw(view, box, values[side], limit, "light");
    for (const halo of picture.querySelectorAll(".halo")) halo.remove();
    for (const [name, value] of Object.entries({ x: left, y: 28, width: box.width, height: box.height })) picture.setAttribute(name, value);
    sheet.append(heading, picture);
  });
  const scale = legend(mode, limit, "light", { text: "#23282e" }, Boolean(answer.structures[0]));
  for (const [name, value] of Object.entries({ x: width / 2 - 150, y: box.height + 40, width: 300, height: 62 })) scale.setAttribute(name, value);
  sheet.append(scale);
  return new XMLSerializer().serializeToString(sheet);
}

const cell = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

export function toCsv(answer) {
  const names = answer.attributes.map(({ name }) => name);
  const head = ["vertex", "name", ...names.flatMap((name) => [`${name} before`, `${name} after`]), "before", "after", "change", "relative"];
  const rows = answer.names.map((called, v) => [v, called, ...names.flatMap((name) => [answer.entries[name][v], answer.entries_after[name][v]]),
    answer.before[v], answer.after[v], answer.change[v], answer.relative[v]]);
  return [head, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

export const saveSvg = (answer, mode, limit) => download("what-if.svg", "image/svg+xml", toSvg(answer, mode, limit));
export const saveCsv = (answer) => download("what-if.csv", "text/csv", toCsv(answer));
