// What was tried for an upload, what was chosen, and why.

import { element } from "./bars.js";

const byId = (id) => document.getElementById(id);
const HEADINGS = ["Model", "Surprise per held-out value", "Weight"];

const number = (value) => (value === null ? "–" : value.toFixed(3).replace("-", "−"));

function row({ model, setting, loss, weight }) {
  return element("tr", { title: setting, className: weight > 0 ? "taken" : "" },
    element("th", { textContent: model, scope: "row" }),
    element("td", { textContent: number(loss), className: "number" }),
    element("td", { textContent: weight > 0 ? weight.toFixed(2) : "", className: "number" }));
}

export function showChoice(chosen) {
  byId("choice").hidden = !chosen;
  if (!chosen) return;
  const alone = chosen.of_columns === null ? "" : ` With independent columns: ${number(chosen.of_columns)}.`;
  byId("choice-why").textContent = `Chosen: ${chosen.why.replaceAll("nats per entry", "surprise per value")}.${alone} Less surprise is better; 0.7 less is twice as likely.`;
  byId("choice-warning").hidden = !chosen.in_vain;
  byId("choice").open = chosen.in_vain;
  const head = element("thead", {}, element("tr", {}, ...HEADINGS.map((textContent, place) =>
    element("th", { textContent, scope: "col", className: place ? "number" : "" }))));
  const body = element("tbody", {}, ...chosen.tried.map(row));
  byId("choice-table").replaceChildren(head, body);
}
