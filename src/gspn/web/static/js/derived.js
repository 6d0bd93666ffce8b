// What follows from a replacement, in words: entries that RDKit derives anew, or that are left out where it cannot.

import { named } from "./bars.js";
import { plain } from "./scale.js";

const written = (name) => name.replaceAll("_", " ");
const atoms = (count) => (count === 1 ? "1 atom" : `${count} atoms`);
const shown = (value) => (typeof value === "number" && !Number.isInteger(value) ? plain(value, 2) : named(value));

// Beside one replacement: the new values at its own vertex, and how many others are different.
export function besides(derived, vertex) {
  const own = derived.filter((one) => one.vertex === vertex);
  const known = own.filter(({ value }) => value !== null).map(({ attribute, value }) => `${written(attribute)} ${shown(value)}`);
  const gone = own.filter(({ value }) => value === null).map(({ attribute }) => written(attribute));
  const others = new Set(derived.map((one) => one.vertex).filter((other) => other !== vertex)).size;
  return [
    known.length || others ? `with ${[...known, ...(others ? [`changes at ${atoms(others)} around`] : [])].join(", ")}` : "",
    gone.length ? `without ${gone.join(", ")}` : "",
  ].filter(Boolean).join("; ");
}

// About the whole edited version.
export function followed({ derived, left_out: problem }) {
  if (!derived.length) return "";
  const names = [...new Set(derived.map(({ attribute }) => written(attribute)))].join(", ");
  const where = `at ${atoms(new Set(derived.map(({ vertex }) => vertex)).size)}`;
  return problem === null ? `Recomputed, as it follows from the edits: ${names} ${where}.` : `Left out, as the edited version cannot be: ${names} ${where}.`;
}
