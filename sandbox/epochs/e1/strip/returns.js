// Where main gives its result: errors about the output are shown there.

/** The function that runs: a declaration or variable called `main`, or the default export's expression. */
const functionOf = (ts, file, main) => {
  for (const statement of file.statements) {
    if (ts.isFunctionDeclaration(statement) && statement.body !== undefined && (statement.name?.text ?? main) === main) return statement;
    if (ts.isExportAssignment(statement) && !ts.isIdentifier(statement.expression)) return statement.expression;
    if (!ts.isVariableStatement(statement)) continue;
    for (const one of statement.declarationList.declarations) {
      if (ts.isIdentifier(one.name) && one.name.text === main && one.initializer !== undefined) return one.initializer;
    }
  }
  return undefined;
};

/** Offset of main's only `return` with a value, else of main itself. */
export const resultOffset = (ts, file, main) => {
  let node = functionOf(ts, file, main);
  if (node === undefined) return 0;
  while (ts.isParenthesizedExpression(node) || ts.isAsExpression(node) || ts.isSatisfiesExpression(node)) node = node.expression;
  const start = node.getStart(file);
  if (node.body === undefined) return start;
  if (!ts.isBlock(node.body)) return node.body.getStart(file);
  const found = [];
  const visit = (inner) => {
    if (ts.isReturnStatement(inner) && inner.expression !== undefined) found.push(inner.getStart(file));
    if (!ts.isFunctionLike(inner)) ts.forEachChild(inner, visit);
  };
  ts.forEachChild(node.body, visit);
  return found.length === 1 ? found[0] : start;
};
