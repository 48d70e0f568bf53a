// One process `belljar` serves all sandboxes of this process that want the same program.

import { Connection } from "./connection.js";

const running = new Map<string, Promise<Connection>>();

/** The process of that program: the one that runs, or a new one in the place of one that died. */
export async function connect(path: string): Promise<Connection> {
  const known = running.get(path);
  if (known !== undefined) {
    const connection = await known.catch(() => null);
    if (connection?.lost === false) return connection;
    // Somebody else may have started another meanwhile.
    if (running.get(path) === known) running.delete(path);
    else return connect(path);
  }
  const started = Connection.open(path);
  running.set(path, started);
  try {
    return await started;
  } catch (error) {
    if (running.get(path) === started) running.delete(path);
    throw error;
  }
}

/** Ends every process that serves this one, and all their sandboxes. The next sandbox starts another. */
export async function shutdown(): Promise<void> {
  const all = [...running.values()];
  running.clear();
  await Promise.all(
    all.map(async (started) => {
      const connection = await started.catch(() => null);
      await connection?.close();
    }),
  );
}
