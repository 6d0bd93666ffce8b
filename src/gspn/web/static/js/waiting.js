// Waiting for a model that is being learned, with a bar.

import { get } from "./api.js";

const PAUSE = 400;
const byId = (id) => document.getElementById(id);

// Estimates of a few seconds would only jump.
function left(seconds) {
  if (seconds === null || seconds === undefined) return "";
  return seconds < 5 ? "a few seconds left" : `about ${Math.ceil(seconds / 5) * 5} s left`;
}

// Asks until the model is ready; gives the last report.
export async function waitFor(path, text) {
  try {
    for (;;) {
      const report = await get(path);
      if (report.state === "ready") return report;
      if (report.state === "failed") throw new Error(report.error);
      byId("progress").hidden = false;
      byId("progress-text").textContent = [report.doing || text, left(report.left)].filter(Boolean).join(" · ");
      if (report.share > 0) byId("progress-bar").value = report.share;
      else byId("progress-bar").removeAttribute("value"); // the start takes a while: it moves, but says nothing
      await new Promise((resume) => setTimeout(resume, PAUSE));
    }
  } finally {
    byId("progress").hidden = true;
  }
}
