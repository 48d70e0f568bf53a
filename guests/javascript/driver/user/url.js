(function () { return {}; });
