// The card beside a vertex that is pointed at or focused: its exact numbers, and what the model expects there.

import { bars, element, named } from "./bars.js";
import { percent, plain, signed } from "./scale.js";

const WAIT = 90;

export class HoverCard {
  // ask(vertex) gives the conditional of the shown attribute
  constructor(card, ask) {
    this.card = card;
    this.ask = ask;
    this.known = new Map();
    this.timer = 0;
  }

  // Another version of the graph: nothing that was known holds any more.
  forget() {
    this.known.clear();
    this.hide();
  }

  hide() {
    clearTimeout(this.timer);
    this.vertex = null;
    this.card.hidden = true;
  }

  show(vertex, where, answer, attribute) {
    clearTimeout(this.timer);
    if (!where) return this.hide();
    Object.assign(this, { vertex, where });
    const now = answer.entries_after[attribute][vertex];
    const expected = element("div", { className: "expected" });
    const line = (name, value) => [element("dt", { textContent: name }), element("dd", { textContent: value })];
    this.card.replaceChildren(
      element("strong", { textContent: `${answer.names[vertex]} · ${named(now)}` }),
      element("dl", {}, ...line("Change", `${signed(answer.change[vertex], 4)} (${percent(answer.relative[vertex])})`),
        ...line("Before → after", `${plain(answer.before[vertex], 4)} → ${plain(answer.after[vertex], 4)}`)),
      element("span", { className: "quiet", textContent: `Expected ${attribute.replaceAll("_", " ")}, given all else` }), expected);
    this.card.hidden = false;
    this.follow();
    const key = `${vertex} ${attribute}`;
    const put = (conditional) => {
      expected.replaceChildren(bars(conditional, 4, now));
      this.follow();
    };
    if (this.known.has(key)) return put(this.known.get(key));
    // Not for every vertex that the pointer passes on its way.
    this.timer = setTimeout(async () => {
      try {
        const { conditional } = await this.ask(vertex);
        this.known.set(key, conditional);
        if (this.vertex === vertex) put(conditional);
      } catch (error) {
        expected.textContent = error.message;
      }
    }, WAIT);
  }

  // Stay beside the vertex, also while the page is scrolled.
  follow() {
    if (this.card.hidden) return;
    const [target, own] = [this.where.getBoundingClientRect(), this.card.getBoundingClientRect()];
    const room = document.documentElement.clientWidth - own.width - 8;
    const above = target.top - own.height - 6;
    this.card.style.left = `${Math.max(8, Math.min(room, target.left + target.width / 2 - own.width / 2))}px`;
    this.card.style.top = `${above > 4 ? above : target.bottom + 6}px`;
  }
}
