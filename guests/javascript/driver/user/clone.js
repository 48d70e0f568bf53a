// structuredClone.
(function ({ clone }) {
  const Failure = DOMException;
  const isRange = (error) => error instanceof RangeError || error instanceof InternalError;
  return {
    structuredClone: function structuredClone(value) {
      if (arguments.length === 0) throw new TypeError("structuredClone takes a value");
      try {
        return clone(value);
      } catch (error) {
        if (isRange(error)) throw error;
        throw new Failure("The value cannot be cloned: it holds a function, a symbol or an object that is more than its data", "DataCloneError");
      }
    },
  };
});
