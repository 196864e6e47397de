// Refusals with positions, 1-based, columns in UTF-16 units as V8 and TypeScript count them.

export const DIAGNOSTICS_MAX = 20;

export const newReport = (ts, file) => {
  const diagnostics = [];
  const place = (offset) => {
    const { line, character } = ts.getLineAndCharacterOfPosition(file, offset);
    return [line + 1, character + 1];
  };
  const at = (start, end, code, message, hint) => {
    if (diagnostics.length >= DIAGNOSTICS_MAX) return;
    const [line, column] = place(start);
    const [end_line, end_column] = place(end);
    diagnostics.push({ severity: "error", code, message, line, column, end_line, end_column, hint: hint ?? null });
  };
  return {
    diagnostics,
    place,
    at,
    on: (node, code, message, hint) => at(node.getStart(file), node.end, code, message, hint),
  };
};
