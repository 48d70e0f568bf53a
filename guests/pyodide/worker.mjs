// The second thread of the process, in the role it is given.

import { parentPort, workerData } from "node:worker_threads";

import { servePython } from "./session.mjs";
import { serveWire } from "../threads/wire.mjs";

const { role, end, options } = workerData;
if (role === "wire") serveWire(end);
else parentPort.postMessage(await servePython(end, options));
