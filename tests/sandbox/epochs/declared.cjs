// Prints what a declaration file declares, as JSON: {name: {statics: [names], members: [names]}} for every global
// value, nested namespaces and classes included as "Intl.Collator". Argument: the file.
const ts = require("typescript");

const program = ts.createProgram([process.argv[2]], { noLib: true, types: [], target: ts.ScriptTarget.ESNext });
const problems = ts.getPreEmitDiagnostics(program);
if (problems.length > 0) throw new Error(ts.formatDiagnostics(problems, { getCanonicalFileName: (f) => f, getCurrentDirectory: () => "", getNewLine: () => "\n" }));
const checker = program.getTypeChecker();
const file = program.getSourceFiles()[0];

/** "__@iterator@12" is what the compiler calls Symbol.iterator. */
const nameOf = (symbol) => symbol.escapedName.replace(/^__@(\w+)@\d+$/, "Symbol.$1").replace(/^___/, "__");
const typeOf = (symbol) => checker.getTypeOfSymbolAtLocation(symbol, file);
const namesOf = (type) => checker.getPropertiesOfType(checker.getApparentType(type)).map(nameOf).sort();

const found = {};
const visit = (name, symbol) => {
  const type = typeOf(symbol);
  const prototype = type.getProperty("prototype");
  const own = checker.getPropertiesOfType(type).filter((one) => one.flags & ts.SymbolFlags.Value);
  const statics = own.map(nameOf).filter((one) => one !== "prototype").sort();
  const made = type.getConstructSignatures()[0]?.getReturnType() ?? (prototype && typeOf(prototype));
  found[name] = { statics, members: prototype === undefined ? [] : namesOf(made ?? typeOf(prototype)) };
  if (name !== "Intl") return;
  for (const one of own) {
    if (typeOf(one).getConstructSignatures().length > 0) visit(`${name}.${nameOf(one)}`, one);
  }
};

for (const symbol of checker.getSymbolsInScope(file, ts.SymbolFlags.Value)) visit(symbol.name, symbol);
process.stdout.write(JSON.stringify(found));
