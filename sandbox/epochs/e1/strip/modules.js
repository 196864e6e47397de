// Imports and exports: blanked in place, their names handed to the wrapper.

const MODULES = new Set(["rewind", "rewind:tools", "rewind:workflows"]);
const REWIND = new Set([
  "ApprovalDeniedError",
  "CancelledError",
  "DeadlockError",
  "LimitError",
  "OutcomeUnknownError",
  "TimeoutError",
  "ToolError",
  "progress",
  "retry",
  "run",
  "sleep",
  "waitForSignal",
]);
const REWIND_TYPES = new Set(["Duration"]);
const WHERE = 'A script imports from "rewind", "rewind:tools" and "rewind:workflows" only.';
const MAIN_HINT = "write `export default async function main(input: { … }) { … return result; }`";

const refuseModule = (report, specifier) => {
  const name = specifier.text;
  const node = name.startsWith("node:") || ["fs", "path", "os", "http", "https", "crypto", "child_process"].includes(name);
  const hint = node
    ? "a script has no files, network or processes: call a tool that does the work"
    : name.startsWith(".")
      ? "a script is one file: put the code into it"
      : "packages cannot be installed: write the function in the script, or call a tool";
  report.on(specifier, "unknown_module", `There is no module ${JSON.stringify(name)}. ${WHERE}`, hint);
};

const readImport = (ts, file, report, used, statement, params) => {
  const specifier = statement.moduleSpecifier;
  const module = specifier.text;
  if (!MODULES.has(module)) return refuseModule(report, specifier);
  const clause = statement.importClause;
  if (clause === undefined || clause.isTypeOnly) return undefined;
  if (clause.name !== undefined) {
    report.on(
      clause.name,
      "no_default_export",
      `"${module}" has no default export.`,
      `write \`import { ${module === "rewind" ? "sleep" : clause.name.text} } from "${module}"\` or \`import * as ${clause.name.text} from "${module}"\``,
    );
  }
  const add = (name, local, node) => {
    if (!used.has(local)) return; // a type, or never used
    if (module === "rewind" && name !== "*" && !REWIND.has(name)) {
      if (REWIND_TYPES.has(name)) return;
      report.on(node, "unknown_export", `"rewind" has no export ${JSON.stringify(name)}.`, `it exports ${[...REWIND].join(", ")}`);
      return;
    }
    const [line, column] = report.place(node.getStart(file));
    params.push({ module, name, local, line, column });
  };
  const bindings = clause.namedBindings;
  if (bindings === undefined) return undefined;
  if (ts.isNamespaceImport(bindings)) add("*", bindings.name.text, bindings);
  else for (const element of bindings.elements) if (!element.isTypeOnly) add((element.propertyName ?? element.name).text, element.name.text, element);
  return undefined;
};

/** A name for an anonymous default export that fits over `default` and is not in the source. */
const freeName = (source) => {
  for (const name of ["main", "$main", "$mai2", "$mai3"]) if (!source.includes(name)) return name;
  return "$_m_4";
};

const isFunctionVariable = (ts, declaration) => {
  let value = declaration.initializer;
  while (value !== undefined && (ts.isParenthesizedExpression(value) || ts.isAsExpression(value) || ts.isSatisfiesExpression(value))) value = value.expression;
  return value !== undefined && (ts.isArrowFunction(value) || ts.isFunctionExpression(value));
};

/** Whether this top-level statement declares a function called `main`. */
const declaresMain = (ts, statement) => {
  if (ts.isFunctionDeclaration(statement)) return statement.name?.text === "main" && statement.body !== undefined;
  if (!ts.isVariableStatement(statement)) return false;
  return statement.declarationList.declarations.some((one) => ts.isIdentifier(one.name) && one.name.text === "main" && isFunctionVariable(ts, one));
};

const refuseReexport = (report, statement) =>
  report.on(statement, "reexport_not_supported", "a script cannot re-export from a module: nothing imports it.", "remove the statement");

const readExportList = (ts, report, statement, edits, file) => {
  let main;
  if (statement.moduleSpecifier !== undefined) {
    if (!statement.isTypeOnly) refuseReexport(report, statement);
    return main;
  }
  if (statement.isTypeOnly || statement.exportClause === undefined) return main;
  for (const element of statement.exportClause.elements) {
    if (!element.isTypeOnly && element.name.text === "default") main = (element.propertyName ?? element.name).text;
  }
  edits.blank(statement.getStart(file), statement.end);
  return main;
};

/** `export default` of an expression or of something without a name becomes a variable, in the same places. */
const nameDefault = (ts, statement, exportToken, defaultToken, edits, source, file) => {
  const name = freeName(source);
  edits.over(exportToken.getStart(file), exportToken.end, "var");
  edits.over(defaultToken.getStart(file), defaultToken.end, `${name.padEnd(6)}=`);
  if (!ts.isExportAssignment(statement)) edits.after(statement.end, ";");
  return name;
};

const tokensOf = (ts, statement, file) => {
  const tokens = statement.getChildren(file).flatMap((child) => (child.kind === ts.SyntaxKind.SyntaxList ? child.getChildren(file) : [child]));
  const find = (kind) => tokens.find((token) => token.kind === kind);
  return { exportToken: find(ts.SyntaxKind.ExportKeyword), defaultToken: find(ts.SyntaxKind.DefaultKeyword) };
};

const readModifiers = (ts, report, statement, edits, source, file) => {
  const modifiers = (ts.canHaveModifiers(statement) && ts.getModifiers(statement)) || [];
  const has = (kind) => modifiers.find((modifier) => modifier.kind === kind);
  const exportToken = has(ts.SyntaxKind.ExportKeyword);
  const defaultToken = has(ts.SyntaxKind.DefaultKeyword);
  if (exportToken === undefined) return undefined;
  const erased =
    ts.isInterfaceDeclaration(statement) ||
    ts.isTypeAliasDeclaration(statement) ||
    ts.isModuleDeclaration(statement) ||
    has(ts.SyntaxKind.DeclareKeyword) !== undefined ||
    (ts.isFunctionDeclaration(statement) && statement.body === undefined);
  if (erased) return undefined;
  if (defaultToken !== undefined && ts.isClassDeclaration(statement)) {
    report.on(statement, "missing_main", "The default export is a class; it must be a function that takes the run's input.", MAIN_HINT);
    return "main";
  }
  if (defaultToken !== undefined && statement.name === undefined) {
    return nameDefault(ts, statement, exportToken, defaultToken, edits, source, file);
  }
  edits.over(exportToken.getStart(file), exportToken.end, "");
  if (defaultToken === undefined) return undefined;
  edits.over(defaultToken.getStart(file), defaultToken.end, "");
  return statement.name.text;
};

const bare = (ts, value) => {
  let inner = value;
  while (ts.isParenthesizedExpression(inner) || ts.isAsExpression(inner) || ts.isSatisfiesExpression(inner)) inner = inner.expression;
  return inner;
};

/** What a default export is that nobody can call. */
const notCallable = (ts, value) => {
  const inner = bare(ts, value);
  if (ts.isObjectLiteralExpression(inner)) return "an object";
  if (ts.isArrayLiteralExpression(inner)) return "a list";
  if (ts.isClassExpression(inner)) return "a class";
  if (ts.isNewExpression(inner)) return "an object";
  return ts.isLiteralExpression(inner) ? "a value" : undefined;
};

const readDefault = (ts, report, statement, edits, source, file) => {
  if (statement.isExportEquals) return undefined; // refused by the blanker
  const kind = notCallable(ts, statement.expression);
  if (kind !== undefined) {
    report.on(statement, "missing_main", `The default export is ${kind}; it must be a function that takes the run's input.`, MAIN_HINT);
    return "main";
  }
  if (ts.isIdentifier(statement.expression)) {
    edits.blank(statement.getStart(file), statement.end);
    return statement.expression.text;
  }
  const { exportToken, defaultToken } = tokensOf(ts, statement, file);
  return nameDefault(ts, statement, exportToken, defaultToken, edits, source, file);
};

/** A generator that is called does nothing until somebody asks it for a value, and nobody would. */
const refuseGenerator = (ts, file, report, main) => {
  const functions = file.statements.flatMap((statement) => {
    if (ts.isFunctionDeclaration(statement)) return [[statement.name?.text ?? "default", statement]];
    if (ts.isExportAssignment(statement)) return [["default", bare(ts, statement.expression)]];
    if (!ts.isVariableStatement(statement)) return [];
    return statement.declarationList.declarations.flatMap((one) =>
      ts.isIdentifier(one.name) && one.initializer !== undefined ? [[one.name.text, bare(ts, one.initializer)]] : [],
    );
  });
  for (const [name, found] of functions) {
    if ((name !== main && name !== "default") || found.asteriskToken === undefined || found.body === undefined) continue;
    report.on(
      found.asteriskToken,
      "main_is_a_generator",
      "`main` is a generator: nothing would run, as nobody asks it for values.",
      "leave the `*` out and `return` the result; a generator inside of main is fine: `for await (const one of pages()) …`",
    );
  }
};

/** Take imports and exports out of the module. Gives the wrapper's parameters and the function to call. */
export const readModule = (ts, file, report, used, edits) => {
  const params = [];
  let exported;
  let plain = false;
  for (const statement of file.statements) {
    let found;
    if (ts.isImportDeclaration(statement)) {
      readImport(ts, file, report, used, statement, params);
      if (statement.importClause === undefined || !statement.importClause.isTypeOnly) edits.blank(statement.getStart(file), statement.end);
    } else if (ts.isExportAssignment(statement)) found = readDefault(ts, report, statement, edits, file.text, file);
    else if (ts.isExportDeclaration(statement)) found = readExportList(ts, report, statement, edits, file);
    else found = readModifiers(ts, report, statement, edits, file.text, file);
    exported ??= found;
    plain ||= declaresMain(ts, statement);
  }
  const main = exported ?? (plain ? "main" : undefined);
  if (main === undefined) report.at(0, 0, "missing_main", "The script has no main function: nothing would run.", MAIN_HINT);
  else refuseGenerator(ts, file, report, main);
  return { params, main };
};
