// The scale's legend, on the page and in saved drawings.

import { MODES, colour, softer } from "./scale.js";
import { node } from "./drawing.js";

const WIDTH = 300;
const BAR = { x: 24, width: WIDTH - 48, height: 12 };

// soft: as discs are behind a structure
export function legend(mode, limit, look, paint = { text: "currentColor" }, soft = false) {
  const { title, tick } = MODES[mode];
  const stops = Array.from({ length: 13 }, (_, i) => i / 6 - 1);
  const id = `ramp-${mode}-${look}`;
  const ramp = node("linearGradient", { id }, ...stops.map((stop) =>
    node("stop", { offset: `${(50 * (stop + 1)).toFixed(2)}%`, "stop-color": soft ? softer(stop, 1, look) : colour(stop, 1, look) })));
  const words = (x, y, text, anchor = "middle") => {
    const made = node("text", { x, y, "font-size": 11, "text-anchor": anchor, fill: paint.text });
    made.textContent = text;
    return made;
  };
  const end = BAR.x + BAR.width;
  return node("svg", { viewBox: `0 0 ${WIDTH} 62`, "font-family": "system-ui, sans-serif", role: "img",
    "aria-label": `${title}: colours from −${tick(limit)} to +${tick(limit)}` },
    node("defs", {}, ramp),
    words(WIDTH / 2, 11, title),
    node("rect", { x: BAR.x, y: 18, width: BAR.width, height: BAR.height, rx: 3, fill: `url(#${id})`, stroke: "#8a9099", "stroke-width": 0.6 }),
    words(BAR.x, 43, `−${tick(limit)}`), words(WIDTH / 2, 43, "0"), words(end, 43, `+${tick(limit)}`),
    words(BAR.x - 10, 58, "less likely", "start"), words(end + 10, 58, "more likely", "end"));
}
