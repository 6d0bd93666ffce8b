// The vertices as a table that can be sorted, linked with the drawings.

import { element, named } from "./bars.js";
import { labelled } from "./stage.js";
import { colour, ink, painted, percent, plain, signed, theme } from "./scale.js";

export class Table {
  // calls: select(vertex), point(vertex or null, where)
  constructor(table, calls) {
    this.table = table;
    this.sort = { column: 0, down: false };
    const vertexOf = (event) => event.target.closest("tr[data-vertex]");
    table.addEventListener("pointerover", (event) => {
      const row = vertexOf(event);
      calls.point(row ? Number(row.dataset.vertex) : null, null);
    });
    table.addEventListener("pointerleave", () => calls.point(null));
    table.addEventListener("click", (event) => {
      const heading = event.target.closest("th button");
      const row = vertexOf(event);
      if (heading) this.#sortBy(Number(heading.dataset.column));
      else if (row) calls.select(Number(row.dataset.vertex), event.detail === 0);
    });
  }

  render(answer, mode, limit, selected) {
    Object.assign(this, { answer, mode, limit, selected });
    this.#draw();
  }

  highlight(vertex) {
    for (const row of this.table.querySelectorAll("tr[data-vertex]")) row.classList.toggle("pointed", Number(row.dataset.vertex) === vertex);
  }

  mark(vertex) {
    this.selected = vertex;
    for (const row of this.table.querySelectorAll("tr[data-vertex]")) row.classList.toggle("selected", Number(row.dataset.vertex) === vertex);
  }

  #sortBy(column) {
    this.sort = { column, down: this.sort.column === column ? !this.sort.down : column > 1 };
    this.#draw();
    this.table.querySelector(`th button[data-column="${column}"]`)?.focus();
  }

  #columns() {
    const { answer } = this;
    const written = labelled(answer.attributes).name;
    const [old, now] = [answer.entries[written], answer.entries_after[written]];
    const numbers = (name, title, show) => ({ title, of: (v) => answer[name][v], show: (v) => show(answer[name][v]), number: true });
    return [
      { title: answer.is_molecule ? "Atom" : "Vertex", of: (v) => v, show: (v) => answer.names[v] },
      { title: written.replaceAll("_", " "), of: (v) => named(now[v]), show: (v) => (old[v] === now[v] ? named(now[v]) : `${named(old[v])} → ${named(now[v])}`) },
      numbers("before", "Before", plain), numbers("after", "After", plain),
      numbers("change", "Change", signed), numbers("relative", "Relative", percent),
    ];
  }

  #draw() {
    const { answer, mode, limit, selected, sort } = this;
    const columns = this.#columns();
    const head = element("tr", {}, ...columns.map(({ title, number }, column) => {
      const sorted = sort.column === column;
      const cell = element("th", { scope: "col", className: number ? "number" : "" },
        element("button", { type: "button", textContent: `${title}${sorted ? (sort.down ? " ↓" : " ↑") : ""}`, dataset: { column } }));
      cell.setAttribute("aria-sort", sorted ? (sort.down ? "descending" : "ascending") : "none");
      return cell;
    }));
    const order = answer.names.map((_, vertex) => vertex);
    const { of } = columns[sort.column];
    const lowest = (value) => value ?? Number.NEGATIVE_INFINITY;
    order.sort((one, other) => {
      const [a, b] = [lowest(of(one)), lowest(of(other))];
      return (a < b ? -1 : a > b ? 1 : one - other) * (sort.down ? -1 : 1);
    });
    const values = painted(answer, mode)[1];
    const rows = order.map((vertex) => {
      const fill = colour(values[vertex], limit, theme());
      const cells = columns.map(({ show, number }, column) => {
        const cell = element("td", { className: number ? "number" : "" });
        if (column === 0) {
          const badge = element("button", { type: "button", className: "badge", textContent: show(vertex) });
          badge.style.background = fill;
          badge.style.color = ink(fill);
          badge.setAttribute("aria-label", `Replace ${show(vertex)}`);
          cell.append(badge);
        } else cell.textContent = show(vertex);
        return cell;
      });
      const row = element("tr", { dataset: { vertex } }, ...cells);
      if (vertex === selected) row.classList.add("selected");
      return row;
    });
    this.table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
  }
}
