// Pyodide from the network, into a folder of this process's own.

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const TIMEOUT_MILLISECONDS = 60_000;

/** The folder they are in. */
export async function download(address, names) {
  const base = address.endsWith("/") ? address : `${address}/`;
  const contents = await Promise.all(names.map((name) => fetched(new URL(name, base))));
  const folder = mkdtempSync(join(tmpdir(), "pyodide-"));
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
