// Asking the server. Every failure becomes an Error whose message can be shown.

async function read(response) {
  let body = null;
  try {
    body = await response.json();
  } catch {
    // not JSON: the status has to do
  }
  if (!response.ok) {
    throw new Error(body?.error ?? `The server answered ${response.status}.`);
  }
  return body;
}

async function send(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
  return read(response);
}

export const get = (path) => send(path, {});

export const ask = (path, question) =>
  send(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) });

export function upload(nodes, edges) {
  const form = new FormData();
  form.append("nodes", nodes);
  if (edges) form.append("edges", edges);
  return send("/api/tables", { method: "POST", body: form });
}
