// Colours for numbers around 0: blue is less likely, orange is more, as in the library's figures; told apart with every
// kind of colour vision.

const STOPS = {
  light: ["#0c3f77", "#2a6fb0", "#6aa3d5", "#b3d0ea", "#f3f3f1", "#f7cfa0", "#e99f4d", "#c26a14", "#7f3b04"],
  dark: ["#a9d6ff", "#6fb0ea", "#4884b8", "#3a5f80", "#363a41", "#7a5638", "#b0703a", "#e3924a", "#ffc48c"],
};
const NEUTRAL = 4;

export const theme = () => (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

const channels = (hex) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));

export function colour(value, limit, look) {
  const stops = STOPS[look];
  if (value === null || !Number.isFinite(value)) return stops[NEUTRAL];
  const place = (Math.max(-1, Math.min(1, limit > 0 ? value / limit : 0)) + 1) / 2 * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(place));
  const [from, to] = [channels(stops[low]), channels(stops[low + 1])];
  const mixed = from.map((part, i) => Math.round(part + (to[i] - part) * (place - low)));
  return `#${mixed.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

// The same on a disc that something is written over: half of the way to the paper.
export function softer(value, limit, look) {
  const paper = channels(look === "dark" ? "#1d2125" : "#ffffff");
  const mixed = channels(colour(value, limit, look)).map((part, i) => Math.round(0.55 * part + 0.45 * paper[i]));
  return `#${mixed.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

// Black or white, whichever is read more easily on the colour.
export function ink(fill) {
  const [r, g, b] = channels(fill).map((part) => ((part / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? "#14171a" : "#ffffff";
}

// The end of a scale that takes in all the values: 1, 2 or 5 times a power of ten.
export function fitted(values, least) {
  const most = Math.max(least, ...values.filter((value) => Number.isFinite(value)).map(Math.abs));
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((one) => one * power).find((end) => end >= most * (1 - 1e-9));
}

export const MODES = {
  change: { title: "Less or more likely than before", least: 0.01, show: signed, tick: String },
  relative: { title: "The change, compared with how unlikely it was before", least: 0.01, show: percent, tick: (end) => `${100 * end} %` },
  likelihood: { title: "Less or more likely than the original on average", least: 0.1, show: signed, tick: String },
};

// What colours the two drawings in a mode: [original, edited], one number per vertex.
export function painted(answer, mode) {
  if (mode !== "likelihood") return [answer.before.map(() => 0), answer[mode]];
  const known = answer.before.filter((value) => value !== null);
  const mean = known.reduce((sum, value) => sum + value, 0) / Math.max(known.length, 1);
  return [answer.before, answer.after].map((side) => side.map((value) => (value === null ? null : value - mean)));
}

export function signed(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : `${value > 0 ? "+" : "−"}${text}`;
}

export function percent(value) {
  return value === null || value === undefined ? "–" : `${signed(100 * value, 1)} %`;
}

export function plain(value, digits = 3) {
  return value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−");
}

// How many times as likely a change of a logarithm makes something, in words.
export function times(change) {
  if (change === null || change === undefined) return "";
  const factor = Math.exp(Math.min(Math.abs(change), 700));
  if (factor < 1.005) return "as likely as before";
  const written = factor >= 1e6 ? `10${superscript(Math.round(Math.log10(factor)))}` : factor >= 100 ? Math.round(factor).toLocaleString("en") : factor >= 10 ? factor.toFixed(0) : factor.toPrecision(2);
  return `${written} times ${change > 0 ? "more" : "less"} likely`;
}

const superscript = (number) => [...String(number)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");

// Probabilities in as few characters as tell something.
export function share(probability) {
  if (probability >= 0.0995) return `${(100 * probability).toFixed(0)} %`;
  if (probability >= 0.001) return `${(100 * probability).toFixed(1)} %`;
  return "< 0.1 %";
}
