// The edits so far as a list; a click goes back, or forth, to that point.

import { element, named } from "./bars.js";

export function words(edit, answer) {
  const name = (vertex) => answer.names[vertex] ?? `vertex ${vertex}`;
  if (edit.do === "set") return `${name(edit.vertex)}: ${edit.attribute.replaceAll("_", " ")} → ${named(edit.value)}`;
  const ends = edit.ends.map(name).join(" – ");
  return edit.do === "add" ? `${ends}: edge added` : `${ends}: edge removed`;
}

export function showHistory(list, state, answer, goTo) {
  const steps = ["Original", ...state.edits.map((edit) => words(edit, answer))];
  list.replaceChildren(...steps.map((text, position) => {
    const button = element("button", { type: "button", className: "plain", textContent: text });
    if (position === state.position) button.setAttribute("aria-current", "step");
    if (position > state.position) button.classList.add("undone");
    button.addEventListener("click", () => goTo(position));
    return element("li", {}, button);
  }));
}
