// What a vertex may be replaced by: ranked values, unknown, its edges, and what the model expects there.

import { bars, element, named } from "./bars.js";
import { besides } from "./derived.js";
import { colour, signed, theme } from "./scale.js";

const byId = (id) => document.getElementById(id);

export class Inspector {
  // calls: edit(edit, byKey), attribute(name), try(value), close()
  constructor(calls) {
    this.calls = calls;
    byId("attribute").addEventListener("change", (event) => calls.attribute(event.target.value));
    byId("close-inspector").addEventListener("click", () => calls.close());
    byId("impossible").addEventListener("change", () => this.#showImpossible());
    byId("replacements").addEventListener("keydown", (event) => this.#key(event));
    byId("own-value").addEventListener("submit", (event) => {
      event.preventDefault();
      const value = byId("own-value-input").valueAsNumber;
      if (Number.isFinite(value)) calls.try(value);
    });
    byId("bond-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const [to, type] = [Number(byId("bond-to").value), Number(byId("bond-type").value || 0)];
      calls.edit({ do: "add", ends: [this.vertex, to], type });
    });
  }

  close() {
    byId("inspector-heading").textContent = "Replace";
    byId("inspector-hint").hidden = false;
    byId("inspector-body").hidden = true;
  }

  // found: the server's answer about the entry; answer: about the whole graph
  show(found, answer, limit) {
    this.vertex = found.vertex;
    const was = found.current === found.original ? "" : `, was ${named(found.original)}`;
    byId("inspector-heading").textContent = `Replace ${answer.names[found.vertex]}`;
    byId("inspector-hint").hidden = true;
    byId("inspector-body").hidden = false;
    const choice = byId("attribute");
    choice.replaceChildren(...answer.attributes.map(({ name }) => element("option", { value: name, textContent: name.replaceAll("_", " ") })));
    choice.value = found.attribute;
    const kind = answer.attributes.find(({ name }) => name === found.attribute).kind;
    byId("own-value").hidden = kind !== "continuous" && kind !== "count";

    const rows = found.replacements.map((row) => this.#row(found, row, was, limit));
    rows.push(this.#row(found, { ...found.unknown, value: null, reason: null }, was, limit));
    byId("replacements").replaceChildren(...rows);
    const forbidden = found.replacements.filter(({ reason, current }) => reason && !current).length;
    byId("impossible-field").hidden = !forbidden;
    byId("impossible-count").textContent = forbidden;
    this.#showImpossible();
    byId("expected").replaceChildren(bars(found.conditional, 6, found.current));
    this.#edges(found.vertex, answer);
  }

  focus() {
    const list = byId("replacements");
    (list.querySelector("button:not([aria-disabled=true]):not(.current)") ?? list.querySelector("button"))?.focus();
  }

  // What valences forbid is left out unless it is asked for.
  #showImpossible() {
    for (const button of byId("replacements").querySelectorAll(".impossible:not(.current)")) {
      button.parentElement.hidden = !byId("impossible").checked;
    }
  }

  #row(found, row, was, limit) {
    const bar = element("span", { className: "bar" });
    const fill = element("span");
    const part = Math.min(1, Math.abs(row.change ?? 0) / limit);
    fill.style.width = `${50 * part}%`;
    fill.style.left = row.change >= 0 ? "50%" : `${50 - 50 * part}%`;
    fill.style.background = colour(row.change, limit, theme());
    bar.append(fill);
    const button = element("button", { type: "button", className: "replacement", dataset: { value: JSON.stringify(row.value) } },
      element("span", { className: "what", textContent: named(row.value) }), bar,
      element("span", { className: "number", textContent: row.current ? "now" : signed(row.change) }));
    const notes = [row.current && was ? was.slice(2) : "", row.reason ?? "", row.value === null && !row.current ? "summed out; counts at the other vertices only" : "", row.reason ? "" : besides(row.derived, found.vertex)].filter(Boolean);
    if (notes.length) button.append(element("span", { className: "note", textContent: notes.join("; ") }));
    if (row.current) button.classList.add("current");
    if (row.reason) button.classList.add("impossible");
    if (row.reason || row.current) button.setAttribute("aria-disabled", "true");
    else {
      const edit = { do: "set", vertex: found.vertex, attribute: found.attribute, value: row.value };
      button.addEventListener("click", (event) => this.calls.edit(edit, event.detail === 0)); // 0: by the keyboard
    }
    return element("li", {}, button);
  }

  #key(event) {
    const buttons = [...byId("replacements").querySelectorAll("li:not([hidden]) button")];
    const at = buttons.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    buttons[Math.max(0, Math.min(buttons.length - 1, to))].focus();
  }

  #edges(vertex, answer) {
    const own = answer.edges_after.filter(([u, v]) => u === vertex || v === vertex);
    byId("bond-list").replaceChildren(...own.map(([u, v, type, oneWay]) => {
      const other = u === vertex ? v : u;
      const kind = answer.edge_types[type];
      const words = `${oneWay ? (u === vertex ? "to " : "from ") : ""}${answer.names[other]}${kind === undefined ? "" : `, ${kind}`}`;
      const button = element("button", { type: "button", textContent: "Remove" });
      button.setAttribute("aria-label", `Remove the edge with ${words}`);
      button.addEventListener("click", () => this.calls.edit({ do: "remove", ends: [u, v] }));
      return element("li", {}, element("span", { textContent: words }), button);
    }));
    const joined = new Set([vertex, ...own.flat().filter((_, i) => i % 4 < 2)]);
    byId("bond-to").replaceChildren(...answer.names.flatMap((name, other) => (joined.has(other) ? [] : [element("option", { value: other, textContent: name })])));
    byId("bond-type").replaceChildren(...answer.edge_types.map((name, code) => element("option", { value: code, textContent: name })));
    byId("bond-type-field").hidden = !answer.edge_types.length;
  }
}
