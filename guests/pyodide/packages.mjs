// Packages that lie beside Pyodide in its folder (numpy, say) are there when code imports them.

import { existsSync } from "node:fs";
import { join } from "node:path";

/** Before a cell runs: loads what it imports, as far as the folder has it. Nothing is fetched. */
export async function loadImported({ pyodide, folder }, line) {
  // Most folders hold no packages and most cells import none.
  if (!line.includes("import") || !line.includes('"execute"')) return;
  const wanted = packagesOf(pyodide, codeOf(line)).filter((name) => isComplete(pyodide, folder, name));
  if (wanted.length > 0) await pyodide.loadPackage(wanted, { messageCallback: () => {}, errorCallback: () => {} });
}

function codeOf(line) {
  try {
    const code = JSON.parse(line).params?.code;
    return typeof code === "string" ? code : "";
  } catch {
    return "";
  }
}

function packagesOf(pyodide, code) {
  const names = pyodide.pyimport("pyodide.code").find_imports(code).toJs();
  const known = pyodide._api._import_name_to_package_name;
  return [...new Set(names.map((name) => known.get(name)))].filter((name) => name !== undefined && !(name in pyodide.loadedPackages));
}

/** Whether the folder has the package and all it depends on. */
function isComplete(pyodide, folder, name, seen = new Set()) {
  if (seen.has(name)) return true;
  seen.add(name);
  const entry = pyodide.lockfile.packages[name];
  if (entry === undefined || !existsSync(join(folder, entry.file_name))) return false;
  return entry.depends.every((other) => isComplete(pyodide, folder, other, seen));
}
