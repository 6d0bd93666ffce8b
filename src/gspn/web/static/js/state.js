// What the page shows: a graph, the edits made to it in order, and how many of them are done (the others can be redone).
// The address holds the graph and the done edits, so that reloading or sharing it shows the same.

const MOST_EDITS = 1000;

export class State {
  constructor(source = null, edits = [], leaveOneOut = false) {
    this.source = source;
    this.edits = edits;
    this.position = edits.length;
    this.leaveOneOut = leaveOneOut;
  }

  get done() {
    return this.edits.slice(0, this.position);
  }

  apply(edit) {
    this.edits = [...this.done, edit];
    this.position = this.edits.length;
  }

  goTo(position) {
    this.position = Math.max(0, Math.min(this.edits.length, position));
  }

  // The question about all of this, as the server takes it.
  question(more = {}) {
    return { ...this.source, edits: this.done, leave_one_out: this.leaveOneOut, ...more };
  }

  toHash() {
    const words = new URLSearchParams();
    for (const [name, value] of Object.entries(this.source ?? {})) words.append(name, value);
    for (const edit of this.done) words.append("edit", JSON.stringify(short(edit)));
    words.append("leave_one_out", this.leaveOneOut ? "1" : "0");
    return `#${words}`;
  }

  // Where the address does not say how vertices are judged, it is left to `leaveOneOut`.
  static fromHash(hash, leaveOneOut = false) {
    const words = new URLSearchParams(hash.replace(/^#/, ""));
    const smiles = words.get("smiles");
    const upload = words.get("upload");
    const graph = Number.parseInt(words.get("graph") ?? "0", 10);
    if (smiles === null && upload === null) return null;
    const source = smiles === null ? { upload, graph: Number.isSafeInteger(graph) ? graph : 0 } : { smiles };
    const edits = words.getAll("edit").slice(0, MOST_EDITS).map(long);
    return new State(source, edits, words.has("leave_one_out") ? words.get("leave_one_out") === "1" : leaveOneOut);
  }
}

function short(edit) {
  return edit.do === "set" ? [edit.vertex, edit.attribute, edit.value] : [edit.do, ...edit.ends, ...(edit.do === "add" ? [edit.type] : [])];
}

function long(text) {
  let parts;
  try {
    parts = JSON.parse(text);
  } catch {
    throw new Error("The address holds an edit that cannot be read.");
  }
  if (!Array.isArray(parts)) throw new Error("The address holds an edit that cannot be read.");
  const [first, second, third, fourth] = parts;
  if (first === "remove") return { do: "remove", ends: [second, third] };
  if (first === "add") return { do: "add", ends: [second, third], type: fourth ?? 0 };
  return { do: "set", vertex: first, attribute: second, value: third ?? null };
}
