// Errors that tools end with.
(function () {
  class ToolError extends Error {}
  class ToolLimitError extends ToolError {}
  for (const type of [ToolError, ToolLimitError])
    Object.defineProperty(type.prototype, "name", { value: type.name, writable: true, configurable: true });
  return { ToolError, ToolLimitError };
});
