// A graph as SVG, with every colour in attributes, so that a saved drawing looks like the one on the page.

import { colour, ink, softer } from "./scale.js";

const NS = "http://www.w3.org/2000/svg";
const UNIT = 56;
const PAPER = {
  light: { line: "#59616b", ring: "#c9cdd2", edited: "#111418", problem: "#b3261e", text: "#23282e" },
  dark: { line: "#a4acb6", ring: "#5a616a", edited: "#ffffff", problem: "#ff8a80", text: "#e4e7ea" },
};
const DISC = 19; // behind a structure
const SHOWN = 430; // pixels that a drawing is wide beside another

export function node(name, attributes = {}, ...children) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Places in pixels, and the box around them: the same for both versions of a graph.
export function frame(places) {
  const points = places.map(([x, y]) => [x * UNIT, -y * UNIT]);
  const [xs, ys] = [0, 1].map((axis) => points.map((point) => point[axis]));
  const pad = 0.62 * UNIT;
  const [left, top] = [Math.min(...xs) - pad, Math.min(...ys) - pad];
  return { points, left, top, width: Math.max(...xs) + pad - left, height: Math.max(...ys) + pad - top };
}

// view: names, labels, edges, isMolecule, structure, changed (vertices), problems (vertices); values and limit give the
// colours. Where there is a structure, as chemists draw it, it lies over the discs, which are softer then.
export function draw(view, box, values, limit, look) {
  const paper = PAPER[look];
  const structure = view.structure ? overlay(view.structure, paper.text) : null;
  // A large graph is scaled down to fit: what is drawn grows with it, as far as neighbours stay apart.
  const shrunk = view.isMolecule ? 1 : Math.max(1, box.width / SHOWN);
  const small = Math.max(5, Math.min(15, 90 / Math.sqrt(view.names.length)));
  const radius = structure ? DISC : view.isMolecule ? 17 : Math.min(Math.max(small, 5 * shrunk), 0.3 * UNIT);
  const lines = node("g", { stroke: paper.line, "stroke-width": view.isMolecule ? 2.2 : 0.8 * shrunk + 0.4, "stroke-opacity": shrunk > 2 ? 0.5 : 1, "stroke-linecap": "round", fill: "none" });
  const beside = neighbours(view);
  for (const edge of structure ? [] : view.edges) lines.append(...edgeLines(edge, box.points, view, radius, beside));
  const atoms = node("g", { "font-family": "system-ui, sans-serif", "text-anchor": "middle" });
  view.names.forEach((name, vertex) => {
    const [x, y] = box.points[vertex];
    const fill = structure ? softer(values[vertex], limit, look) : colour(values[vertex], limit, look);
    const changed = view.changed.has(vertex);
    const wrong = view.problems.has(vertex);
    const stroke = wrong ? paper.problem : changed ? paper.edited : structure ? "none" : paper.ring;
    const group = node("g", { "data-vertex": vertex, class: "vertex" });
    group.append(node("circle", { cx: x, cy: y, r: radius + 6, fill: "transparent", class: "halo" }));
    const disc = node("circle", { cx: x, cy: y, r: radius, fill, stroke, "stroke-width": (changed || wrong ? 2.6 : 1) * shrunk });
    if (wrong) disc.setAttribute("stroke-dasharray", "4 3");
    group.append(disc);
    if (radius > 9 && !structure && shrunk < 2) group.append(...label(view, vertex, x, y, ink(fill)));
    if (!view.isMolecule && view.names.length <= 80) {
      const under = node("text", { x, y: y + radius + 12, "font-size": 10, fill: paper.text });
      under.textContent = shortened(name, 10);
      group.append(under);
    }
    atoms.append(group);
  });
  const drawn = node("svg", { xmlns: NS, viewBox: `${box.left} ${box.top} ${box.width} ${box.height}` }, lines, atoms);
  if (structure) drawn.append(structure);
  return drawn;
}

// RDKit's drawing, which is black, in the page's ink; the pointer reaches through it.
function overlay(text, ink) {
  const parsed = new DOMParser().parseFromString(`<svg xmlns="${NS}">${text.replaceAll("#000000", ink)}</svg>`, "image/svg+xml");
  const group = parsed.documentElement.firstElementChild;
  if (parsed.querySelector("parsererror") || !group) return null;
  const layer = node("g", { class: "structure", "pointer-events": "none", "aria-hidden": "true" });
  layer.append(document.importNode(group, true));
  return layer;
}

export const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function label(view, vertex, x, y, fill) {
  const symbol = node("text", { x, y: y + 5, "font-size": view.isMolecule ? 14 : 9, "font-weight": 600, fill });
  symbol.textContent = shortened(view.labels[vertex], view.isMolecule ? 5 : 4);
  if (!view.isMolecule) {
    symbol.setAttribute("y", y + 3);
    return [symbol];
  }
  const number = node("text", { x: x + 9.5, y: y + 11, "font-size": 7, fill, opacity: 0.75 });
  number.textContent = vertex; // as everywhere: in the table, the address, files and commands
  return [symbol, number];
}

function neighbours(view) {
  const lists = view.names.map(() => []);
  for (const [u, v] of view.edges) {
    lists[u].push(v);
    lists[v].push(u);
  }
  return lists;
}

function edgeLines([u, v, type, oneWay], points, view, radius, beside) {
  const [[x1, y1], [x2, y2]] = [points[u], points[v]];
  const length = Math.hypot(x2 - x1, y2 - y1);
  if (u === v) return [node("circle", { cx: x1, cy: y1 - radius, r: radius * 0.7 })];
  if (length === 0) return [];
  const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
  const line = (offset, shrink = 0, extra = {}) =>
    node("line", {
      x1: x1 - dy * offset + dx * shrink, y1: y1 + dx * offset + dy * shrink,
      x2: x2 - dy * offset - dx * shrink, y2: y2 + dx * offset - dy * shrink, ...extra,
    });
  const kind = view.isMolecule ? view.edgeTypes[type] ?? "single" : "single";
  if (kind === "double") return [line(-2.6), line(2.6)];
  if (kind === "triple") return [line(-4.6), line(0), line(4.6)];
  if (kind === "other") return [line(0, 0, { "stroke-dasharray": "2 5" })];
  if (kind === "aromatic") {
    const side = inside([x1, y1], [dx, dy], [...beside[u], ...beside[v]].map((one) => points[one]));
    return [line(0), line(5.2 * side, 7, { "stroke-dasharray": "4 4", "stroke-width": 1.6 })];
  }
  return oneWay ? [line(0), arrow(x2, y2, dx, dy, radius)] : [line(0)];
}

// The side of a bond on which most neighbours are: inside the ring.
function inside([x, y], [dx, dy], others) {
  const sum = others.reduce((total, [ox, oy]) => total + Math.sign((oy - y) * dx - (ox - x) * dy), 0);
  return sum < 0 ? -1 : 1;
}

function arrow(x, y, dx, dy, radius) {
  const [tipX, tipY] = [x - dx * (radius + 1), y - dy * (radius + 1)];
  const corner = (side) => `${tipX - dx * 7 - dy * 3.5 * side},${tipY - dy * 7 + dx * 3.5 * side}`;
  return node("polyline", { points: `${corner(1)} ${tipX},${tipY} ${corner(-1)}` });
}
