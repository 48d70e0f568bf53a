// What the engine refused, as the error that stands for it here.

import {
  BackendUnavailableError,
  BusyError,
  PolicyValidationError,
  SandboxError,
  type BelljarError,
  type Issue,
} from "./errors.js";
import { BUSY } from "./generated.js";

/** An error of JSON-RPC, with Belljar's details. */
export interface RpcError {
  code: number;
  message: string;
  data?: { kind?: string; hint?: string | null; issues?: Issue[] } | null;
}

export function refused({ code, message, data }: RpcError): BelljarError {
  const hint = data?.hint ?? null;
  if (code === BUSY) return new BusyError("busy", message, { hint: hint ?? "try again later" });
  switch (data?.kind) {
    case "policy_validation":
      return new PolicyValidationError(message, data.issues ?? [], hint);
    case "backend_unavailable":
      return new BackendUnavailableError(data.kind, message, { hint });
    default:
      return new SandboxError(data?.kind ?? "refused", message, { hint });
  }
}
