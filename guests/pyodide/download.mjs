// Pyodide from the network, into a folder of this process's own.

import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const TIMEOUT_MILLISECONDS = 60_000;

/** The folder they are in, for this process alone. */
export const download = (address, names) => downloadInto(address, names, tmpdir());

/** Puts them into a folder of this name, complete or not at all. */
export async function keep(address, names, folder) {
  const made = await downloadInto(address, names, dirname(folder));
  try {
    renameSync(made, folder);
  } catch (error) {
    rmSync(made, { recursive: true });
    // Another process was faster.
    if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
  }
}

async function downloadInto(address, names, parent) {
  const base = address.endsWith("/") ? address : `${address}/`;
  const contents = await Promise.all(names.map((name) => fetched(new URL(name, base))));
  const folder = mkdtempSync(join(parent, "pyodide-"));
  names.forEach((name, index) => writeFileSync(join(folder, name), contents[index]));
  return folder;
}

async function fetched(url) {
  let response;
  try {
    response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MILLISECONDS) });
  } catch (error) {
    throw new Error(`${url.host} does not answer (${error?.cause?.code ?? error?.name})`);
  }
  if (!response.ok) throw new Error(`${url} answers ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}
