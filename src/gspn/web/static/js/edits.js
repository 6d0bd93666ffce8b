// All molecules one edit away from the original, by what the edit changes of a predicted property. Asked for when opened.

import { element } from "./bars.js";
import { percent, signed } from "./scale.js";

const byId = (id) => document.getElementById(id);

export class EditList {
  // calls: ask() gives the server's list for the molecule that is shown, open(smiles) shows another one
  constructor(calls) {
    this.calls = calls;
    byId("edits").addEventListener("toggle", () => this.#fill());
  }

  // Another molecule, or none with a property.
  forget(property) {
    this.known = false;
    byId("edits").hidden = !property;
    byId("edits-property").textContent = property ?? "";
    byId("edits-table").replaceChildren();
    this.#fill();
  }

  async #fill() {
    if (this.known || byId("edits").hidden || !byId("edits").open) return;
    this.known = true;
    byId("edits-note").textContent = "Predicting every one …";
    const turn = (this.turn = (this.turn ?? 0) + 1);
    try {
      const found = await this.calls.ask();
      if (turn === this.turn) this.#show(found);
    } catch (error) {
      if (turn === this.turn) byId("edits-note").textContent = error.message;
    }
  }

  #show({ property, level, rows }) {
    const interval = level === null ? "" : ` Ranges hold ${100 * level} %, if the errors of the two predictions are independent.`;
    byId("edits-note").textContent = `${rows.length} molecules are one edit away from the original and can be, as far as valences say; each is predicted as a whole by the model of ${property}.${interval} Choose one to look at it.`;
    const headings = ["Edit", `Change of ${property}`, ...(level === null ? [] : ["Range"]), "Predicted"];
    const head = element("thead", {}, element("tr", {}, ...headings.map((textContent, place) =>
      element("th", { textContent, scope: "col", className: place ? "number" : "" }))));
    const body = element("tbody", {}, ...rows.map((row) => this.#row(row, level)));
    byId("edits-table").replaceChildren(head, body);
  }

  #row({ edit, smiles, change, low, high, predicted }, level) {
    const open = element("button", { type: "button", className: "plain", textContent: edit, title: smiles });
    open.addEventListener("click", () => this.calls.open(smiles));
    const [shown, number] = level === null ? [percent(change), percent(predicted).replace("+", "")] : [signed(change), signed(predicted).replace("+", "")];
    const texts = [shown, ...(level === null ? [] : [`${signed(low)} to ${signed(high)}`]), number];
    return element("tr", {}, element("td", {}, open), ...texts.map((textContent) => element("td", { textContent, className: "number" })));
  }
}
