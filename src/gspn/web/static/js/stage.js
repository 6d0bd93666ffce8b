// The two drawings: what is drawn where, and how vertices are reached by pointer and keyboard.

import { draw, frame } from "./drawing.js";
import { named } from "./bars.js";
import { MODES, painted, signed, theme, times } from "./scale.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// The attribute that is written on the vertices: of atoms the element, else the first one that has few values.
export function labelled(attributes) {
  const element = attributes.find(({ name }) => name === "element" || name === "atomic_number");
  return element ?? attributes.find(({ kind }) => kind !== "continuous") ?? attributes[0];
}

// The two versions of the graph as `draw` takes them.
export function views(answer) {
  const written = labelled(answer.attributes).name;
  const changed = new Set();
  for (const { name } of answer.attributes) {
    answer.entries[name].forEach((value, vertex) => {
      if (value !== answer.entries_after[name][vertex]) changed.add(vertex);
    });
  }
  const text = (value) => (value === null ? "?" : typeof value === "number" && !Number.isInteger(value) ? value.toPrecision(3) : named(value));
  const side = (edges, entries, marks, problems, structure) => ({
    names: answer.names, isMolecule: answer.is_molecule, edgeTypes: answer.edge_types, structure,
    edges, labels: entries[written].map(text), changed: marks, problems,
  });
  const problems = new Set(answer.problems.map(({ vertex }) => vertex));
  const [before, after] = answer.structures;
  return [side(answer.edges, answer.entries, new Set(), new Set(), before), side(answer.edges_after, answer.entries_after, changed, problems, after)];
}

export class Stage {
  // calls: select(vertex), point(vertex or null, where)
  constructor(places, calls) {
    this.places = places; // [original, edited], elements to draw into
    this.calls = calls;
    for (const place of places) {
      place.addEventListener("click", (event) => this.#withVertex(event, (vertex) => calls.select(vertex)));
      place.addEventListener("pointerover", (event) => this.#withVertex(event, (vertex, group) => calls.point(vertex, group)));
      place.addEventListener("pointerleave", () => calls.point(null));
      place.addEventListener("focusin", (event) => this.#withVertex(event, (vertex, group) => {
        if (group.matches(":focus-visible")) calls.point(vertex, group); // the pointer has its own way
      }));
      place.addEventListener("focusout", () => calls.point(null));
      place.addEventListener("keydown", (event) => this.#key(event));
    }
  }

  render(answer, mode, limit, selected) {
    this.box = frame(answer.places);
    const focused = this.places[1].contains(document.activeElement) ? document.activeElement.dataset.vertex : null;
    const values = painted(answer, mode);
    views(answer).forEach((view, side) => {
      const picture = draw(view, this.box, values[side], limit, theme());
      // Small molecules would otherwise be drawn enormous.
      picture.style.maxWidth = `${this.box.width * 1.3}px`;
      picture.setAttribute("role", "group");
      picture.setAttribute("aria-label", side === 0 ? "Original graph" : "Edited graph; choose a vertex to replace it");
      for (const group of picture.querySelectorAll(".vertex")) {
        const vertex = Number(group.dataset.vertex);
        const value = `${MODES[mode].title}: ${MODES[mode].show(values[side][vertex])}`;
        group.setAttribute("role", side === 0 ? "img" : "button");
        group.setAttribute("aria-label", `${answer.names[vertex]}, ${view.labels[vertex]}. ${value}`);
        if (side === 1) group.setAttribute("tabindex", "0");
        if (vertex === selected) group.classList.add("selected");
      }
      this.places[side].replaceChildren(picture);
    });
    if (focused !== null) this.focus(focused);
  }

  focus(vertex) {
    this.#groups(vertex)[1]?.focus();
  }

  highlight(vertex) {
    for (const place of this.places) {
      for (const group of place.querySelectorAll(".vertex.pointed")) group.classList.remove("pointed");
    }
    if (vertex !== null) for (const group of this.#groups(vertex)) group?.classList.add("pointed");
  }

  mark(vertex) {
    for (const place of this.places) {
      for (const group of place.querySelectorAll(".vertex")) group.classList.toggle("selected", Number(group.dataset.vertex) === vertex);
    }
  }

  #groups(vertex) {
    return this.places.map((place) => place.querySelector(`.vertex[data-vertex="${Number(vertex)}"]`));
  }

  #withVertex(event, call) {
    const group = event.target.closest?.(".vertex");
    if (group) call(Number(group.dataset.vertex), group);
  }

  #key(event) {
    const group = event.target.closest?.(".vertex");
    if (!group) return;
    const vertex = Number(group.dataset.vertex);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.calls.select(vertex, true);
    } else if (event.key in ARROWS) {
      event.preventDefault();
      this.focus(this.#towards(vertex, ARROWS[event.key]));
    }
  }

  // The vertex that is nearest in a direction; far aside counts double.
  #towards(vertex, [dx, dy]) {
    const [x, y] = this.box.points[vertex];
    let [best, least] = [vertex, Number.POSITIVE_INFINITY];
    this.box.points.forEach(([px, py], other) => {
      const ahead = (px - x) * dx + (py - y) * dy;
      const cost = ahead + 2 * Math.abs((px - x) * dy - (py - y) * dx);
      if (other !== vertex && ahead > 1 && cost < least) [best, least] = [other, cost];
    });
    return best;
  }
}

export const totals = (answer) => `${signed(answer.total)} (${times(answer.total)})`;
