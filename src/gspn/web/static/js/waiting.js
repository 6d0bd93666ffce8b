// Waiting for a model that is being learned, with a bar.

import { get } from "./api.js";

const PAUSE = 400;
const byId = (id) => document.getElementById(id);

// Asks until the model is ready; gives the last report.
export async function waitFor(path, text) {
  try {
    for (;;) {
      const report = await get(path);
      if (report.state === "ready") return report;
      if (report.state === "failed") throw new Error(report.error);
      byId("progress").hidden = false;
      byId("progress-text").textContent = text;
      byId("progress-bar").value = report.share;
      await new Promise((resume) => setTimeout(resume, PAUSE));
    }
  } finally {
    byId("progress").hidden = true;
  }
}
