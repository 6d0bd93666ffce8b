// The page: one state, one answer of the server about it, and the parts that show them.

import { ask, get, upload } from "./api.js";
import { element } from "./bars.js";
import { followed } from "./derived.js";
import { EditList } from "./edits.js";
import { showHistory, words } from "./history.js";
import { HoverCard } from "./hover.js";
import { Inspector } from "./inspector.js";
import { showChoice } from "./choice.js";
import { legend } from "./legend.js";
import { saveCsv, saveSvg } from "./saving.js";
import { MODES, fitted, painted, theme, times } from "./scale.js";
import { Stage, labelled, totals } from "./stage.js";
import { State } from "./state.js";
import { Table } from "./table.js";
import { waitFor } from "./waiting.js";

const byId = (id) => document.getElementById(id);

const OUT_OF_THE_QUESTION = -8; // nats: three thousand times less likely

const page = {
  state: new State(),
  answer: null, // about the whole graph
  found: null, // about the selected vertex
  selected: null,
  attribute: null,
  mode: "change",
  limits: {}, // the ends of the locked scales, by mode
  about: null,
  upload: null, // the server's report about the upload that is shown
  turn: 0, // numbers the questions: answers to old ones are dropped
};

const card = new HoverCard(byId("card"), (vertex) =>
  ask("/api/conditional", page.state.question({ vertex, attribute: labelled(page.answer.attributes).name })));
const stage = new Stage([byId("original"), byId("edited")], { select, point });
const table = new Table(byId("table"), { select, point });
const editList = new EditList({
  ask: () => ask("/api/edits", page.state.source),
  open: (smiles) => {
    byId("smiles").value = smiles;
    openSmiles(smiles);
    byId("workspace").scrollIntoView({ block: "start" });
  },
});
const inspector = new Inspector({
  edit: change,
  attribute: (name) => { page.attribute = name; attempt(inspect); },
  try: (value) => attempt(() => inspect([value])),
  close: () => deselect(true),
});

function tell(message) {
  byId("message").textContent = message ? message[0].toUpperCase() + message.slice(1) : "";
  byId("message").hidden = !message;
}

// Whatever goes wrong is said in the page.
async function attempt(action) {
  try {
    await action();
  } catch (error) {
    tell(error.message);
  }
}

// Showing

async function show(state, told) {
  const turn = ++page.turn;
  const answer = await ask("/api/what-if", state.question());
  if (turn !== page.turn) return;
  const isNew = JSON.stringify(state.source) !== JSON.stringify(page.state.source) || page.answer === null;
  Object.assign(page, { state, answer });
  if (isNew) Object.assign(page, { selected: null, found: null, limits: {}, attribute: labelled(answer.attributes).name });
  if (isNew) editList.forget(answer.is_molecule ? page.about.predicts : null);
  tell(null);
  card.forget();
  history.replaceState(null, "", state.toHash());
  byId("workspace").hidden = false;
  render();
  if (told) byId("live").textContent = `${told}. Total change ${totals(answer)}.`;
  if (page.selected === null) inspector.close();
  else await inspect();
}

// A scale is fitted to the first change that there is, and stays until it is asked to fit again.
function limit() {
  const { answer, mode, limits } = page;
  const values = painted(answer, mode).flat().filter((value) => value !== null);
  if (limits[mode] === undefined && values.some((value) => value !== 0)) limits[mode] = fitted(values, MODES[mode].least);
  return limits[mode] ?? 1;
}

function render() {
  const { answer, mode, state, selected } = page;
  if (!answer) return;
  const end = limit();
  stage.render(answer, mode, end, selected);
  table.render(answer, mode, end, selected);
  for (const heading of document.querySelectorAll("[data-molecule]")) {
    heading.dataset.graph ??= heading.textContent;
    heading.textContent = answer.is_molecule ? heading.dataset.molecule : heading.dataset.graph;
  }
  byId("legend").replaceChildren(legend(mode, end, theme(), undefined, Boolean(answer.structures[0])));
  byId("caption-original").textContent = answer.is_molecule ? "as it is" : `${answer.names.length} vertices`;
  byId("caption-edited").textContent = state.position ? totals(answer) : "no edits yet";
  byId("meaning").textContent = meaning(answer, state);
  byId("problems").textContent = answer.problems.map(({ vertex, reason }) => `${answer.names[vertex]}: ${reason}`).join("; ");
  byId("problems").hidden = !answer.problems.length;
  showHistory(byId("history"), state, answer, (position) => travel(position, "Went to another point"));
  byId("undo").disabled = state.position === 0;
  byId("redo").disabled = state.position === state.edits.length;
  document.querySelector(`input[name=kind][value=${state.leaveOneOut ? "loo" : "pseudo"}]`).checked = true;
}

// What the number says, in a sentence.
function meaning(answer, state) {
  const all = answer.is_molecule ? "atoms" : "vertices";
  const seen = state.leaveOneOut ? "judged by all that is around it" : "judged by itself and what is around it";
  const scale = `Numbers are logarithms: +0.7 is twice as likely, −0.7 half as likely, −2.3 a tenth.`;
  if (!state.position) return `Every one of the ${all} is ${seen}; click one to see what it could be instead. ${scale}`;
  return `To the model, the edited version is ${times(answer.total)}: the sum of what all ${all} gain or lose, each ${seen}. ${scale} ${followed(answer)}`;
}

// Vertices

function point(vertex, where) {
  stage.highlight(vertex);
  table.highlight(vertex);
  if (vertex === null || !where) card.hide();
  else card.show(vertex, where, page.answer, labelled(page.answer.attributes).name);
}

function select(vertex, byKey = false) {
  page.selected = vertex;
  stage.mark(vertex);
  table.mark(vertex);
  attempt(async () => {
    await inspect();
    card.hide();
    if (byKey) inspector.focus();
    else bringUp("inspector");
  });
}

// On a narrow page drawings and replacements are not seen together.
function bringUp(id) {
  if (matchMedia("(max-width: 60rem)").matches) byId(id).scrollIntoView({ block: "start", behavior: "smooth" });
}

function deselect(refocus) {
  const before = page.selected;
  page.selected = null;
  stage.mark(null);
  table.mark(null);
  inspector.close();
  if (refocus && before !== null) stage.focus(before);
}

async function inspect(values = []) {
  const { selected: vertex, attribute } = page;
  if (vertex === null) return;
  const turn = page.turn;
  const found = await ask("/api/replacements", page.state.question({ vertex, attribute, values }));
  if (turn !== page.turn || vertex !== page.selected) return;
  // The bars are for what may be; the rest would make them tiny.
  const likely = found.replacements.filter(({ reason }) => !reason).map(({ change }) => change).filter((change) => change !== null && change > OUT_OF_THE_QUESTION);
  inspector.show(found, page.answer, fitted(likely, 0.01));
}

// Edits

function change(edit, byKey = false) {
  const { source, leaveOneOut } = page.state;
  const next = new State(source, [...page.state.done, edit], leaveOneOut);
  attempt(async () => {
    await show(next, words(edit, page.answer));
    if (byKey) stage.focus(page.selected);
    else bringUp("figure-edited");
  });
}

function travel(position, told) {
  const { source, edits, leaveOneOut } = page.state;
  const next = new State(source, edits, leaveOneOut);
  next.goTo(position);
  if (next.position !== page.state.position) attempt(() => show(next, told));
}

const undo = () => travel(page.state.position - 1, "Undone");
const redo = () => travel(page.state.position + 1, "Redone");

// Choosing a graph

function open(source, leaveOneOut = page.state.leaveOneOut) {
  return attempt(async () => {
    await show(new State(source, [], leaveOneOut));
    introduce(source.upload === undefined ? null : page.upload);
  });
}

const known = (attributes) => attributes.map(({ name }) => name.replaceAll("_", " ")).join(", ");

// The tables that the server was started with.
async function openGreeting(name) {
  await waitForUpload(name, 0);
  await open({ upload: name, graph: 0 }, page.upload.can_leave_out);
}

// Who is asked: the loaded model, or one that was fitted to an upload.
function introduce(report) {
  page.upload = report;
  const several = report !== null && report.graphs.length > 1;
  byId("graph-field").hidden = !several;
  if (report !== null) byId("smiles").value = byId("examples").value = "";
  if (report?.fitted) byId("about").textContent = `What was chosen for these tables answers; it knows ${known(report.attributes)}.`;
  else if (page.about.model) {
    const { models, levels, attributes, learned_from: from } = page.about.model;
    const who = models > 1 ? `${models} models answer as one` : "One model answers";
    const reach = levels > 1 ? `looks up to ${levels - 1} edge${levels > 2 ? "s" : ""} away, and` : "";
    byId("about").textContent = `${who}${from ? `, which has learned from ${from}` : ""}; it ${reach} knows ${known(attributes)}.`;
  }
  showChoice(report?.fitted ? report.chosen : null);
}

function openSmiles(smiles) {
  const most = page.about?.limits.smiles_characters ?? Number.POSITIVE_INFINITY;
  if (!smiles) return tell("Type a SMILES, or choose a molecule.");
  if (smiles.length > most) return tell(`This SMILES is too long: ${smiles.length.toLocaleString("en")} characters, and at most ${most.toLocaleString("en")} are taken.`);
  return open({ smiles });
}

async function openUpload() {
  const [nodes, edges] = ["nodes", "edges"].map((id) => byId(id).files[0]);
  if (!nodes) throw new Error("Choose a table of nodes first.");
  const [size, most] = [nodes.size + (edges?.size ?? 0), page.about.limits.upload_bytes];
  if (size > most) throw new Error(`The tables are too large: ${size.toLocaleString("en")} bytes, and at most ${most.toLocaleString("en")} are taken.`);
  await upload(nodes, edges).then(({ upload: name }) => waitForUpload(name, 0));
  byId("upload").open = false;
  await open({ upload: page.upload.upload, graph: 0 }, page.upload.can_leave_out);
}

async function waitForUpload(name, chosen) {
  page.upload = await waitFor(`/api/tables/${encodeURIComponent(name)}`, "Waiting: one upload learns at a time …");
  byId("graphs").replaceChildren(...page.upload.graphs.map((called, number) => element("option", { value: number, textContent: called })));
  byId("graphs").value = chosen;
}

async function restore() {
  const state = State.fromHash(location.hash, page.state.leaveOneOut);
  if (!state) {
    const [{ smiles }] = page.about.examples;
    byId("examples").value = byId("smiles").value = smiles;
    await open({ smiles });
    return;
  }
  if (state.source.smiles !== undefined) byId("smiles").value = state.source.smiles;
  else await waitForUpload(state.source.upload, state.source.graph);
  await show(state);
  introduce(state.source.upload === undefined ? null : page.upload);
}

// Wiring

byId("smiles-form").addEventListener("submit", (event) => {
  event.preventDefault();
  byId("examples").value = "";
  openSmiles(byId("smiles").value.trim());
});
byId("examples").addEventListener("change", (event) => {
  if (!event.target.value) return;
  byId("smiles").value = event.target.value;
  openSmiles(event.target.value);
});
byId("upload-form").addEventListener("submit", (event) => {
  event.preventDefault();
  tell(null);
  attempt(openUpload);
});
byId("graphs").addEventListener("change", (event) => open({ ...page.state.source, graph: Number(event.target.value) }));
byId("undo").addEventListener("click", undo);
byId("redo").addEventListener("click", redo);
byId("refit").addEventListener("click", () => {
  page.limits = {};
  render();
});
byId("export-svg").addEventListener("click", () => saveSvg(page.answer, page.mode, limit()));
byId("export-csv").addEventListener("click", () => saveCsv(page.answer));
for (const radio of document.querySelectorAll("input[name=colour]")) {
  radio.addEventListener("change", () => {
    page.mode = radio.value;
    render();
  });
}
for (const radio of document.querySelectorAll("input[name=kind]")) {
  radio.addEventListener("change", () => {
    const { source, edits, position } = page.state;
    const next = new State(source, edits, radio.value === "loo");
    next.goTo(position);
    page.limits = {};
    attempt(() => show(next)).then(render);
  });
}
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input[type=text], input[type=number]");
  if (event.key === "Escape") {
    card.hide();
    if (page.selected !== null) deselect(byId("inspector").contains(document.activeElement));
  } else if ((event.ctrlKey || event.metaKey) && !typing && page.answer) {
    const key = event.key.toLowerCase();
    if (key !== "z" && key !== "y") return;
    event.preventDefault();
    if (key === "y" || event.shiftKey) redo();
    else undo();
  }
});
addEventListener("hashchange", () => attempt(restore));
addEventListener("scroll", () => card.follow(), { passive: true, capture: true });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);

attempt(async () => {
  try {
    page.about = await waitFor("/api/about", "Loading the model …");
  } catch (error) {
    page.about = await get("/api/about"); // tables can do without that model
    throw error;
  }
  const { model, examples } = page.about;
  page.state.leaveOneOut = model.leave_one_out;
  introduce(null);
  for (const field of ["smiles", "examples"]) byId(field).disabled = !model.molecules;
  byId("examples").append(...(model.molecules ? examples : []).map(({ name, smiles }) => element("option", { value: smiles, textContent: name })));
  const { columns, greeting } = page.about;
  byId("id-column").textContent = columns.id ?? "any";
  [byId("source-column").textContent, byId("target-column").textContent] = [columns.source, columns.target];
  [byId("type-column").textContent, byId("graph-column").textContent] = [columns.edge_type, columns.graph];
  if (greeting !== null && !location.hash) await openGreeting(greeting);
  else if (model.molecules || location.hash.includes("upload=")) await restore();
  else {
    byId("upload").open = true;
    tell(`This model knows tables with ${known(model.attributes)}: upload one.`);
  }
});
