// The distribution of one entry as small bars, or as a mean with an interval.

import { plain, share } from "./scale.js";

export const named = (value) => (value === null ? "unknown" : value === true ? "yes" : value === false ? "no" : String(value));

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  const { dataset, ...others } = properties;
  Object.assign(made, others);
  Object.assign(made.dataset, dataset ?? {});
  made.append(...children);
  return made;
}

export function bars(conditional, most, current) {
  if (conditional.mean !== undefined) {
    const [low, high] = conditional.interval;
    return element("p", { textContent: `${plain(conditional.mean)} ± ${plain(conditional.deviation)}, 90 %: ${plain(low)} to ${plain(high)}` });
  }
  const rows = conditional.values.map((value, i) => ({ value, probability: conditional.probs[i] ?? 0 }));
  rows.sort((one, other) => other.probability - one.probability);
  const list = element("ul", { className: "bars" });
  for (const { value, probability } of rows.slice(0, most)) {
    const bar = element("span", { className: "bar" });
    const fill = element("span");
    fill.style.width = `${Math.max(1, 100 * probability)}%`;
    bar.append(fill);
    const item = element("li", {}, element("span", { className: "what", textContent: named(value) }), bar,
      element("span", { className: "number", textContent: share(probability) }));
    if (value === current) item.classList.add("current");
    list.append(item);
  }
  return list;
}
