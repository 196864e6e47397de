// The language's declarations, made from TypeScript's own when the epoch is built: its lib files in the order of
// their references, less what the sandbox lacks. Prints one text. Argument: path of web.d.ts, which follows.
const fs = require("node:fs");
const path = require("node:path");
const ts = require("typescript");

const folder = path.dirname(require.resolve("typescript"));

/** Files whose every declaration is absent from the sandbox. */
const FILES = new Set([
  "decorators", // refused by the stripper
  "decorators.legacy",
  "es2017.sharedmemory",
  "es2020.sharedmemory",
  "es2021.weakref",
  "es2024.sharedmemory",
  "esnext.sharedmemory",
  "esnext.decorators",
  "esnext.temporal",
  "esnext.collection", // not in this V8
  "esnext.date",
]);
/** Names and members that are absent. `eval` and `new Function` are there: they throw an EvalError. */
const ABSENT = new Set([
  "escape",
  "unescape",
  "ClassDecorator",
  "MethodDecorator",
  "ParameterDecorator",
  "PropertyDecorator",
  "esnext.intl/Intl.DateTimeFormat", // formats of Temporal's values
  "Intl.FormattableTemporalObject",
  ...["$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9", "$_", "$&", "$+", "$`", "$'"].map((name) => `RegExpConstructor.${name}`),
  ...["input", "lastMatch", "lastParen", "leftContext", "rightContext"].map((name) => `RegExpConstructor.${name}`),
]);

const printer = ts.createPrinter({ removeComments: true });
const seen = new Set();
let text = `// Made from the declarations of TypeScript ${ts.version}. Copyright (c) Microsoft Corporation, Apache License 2.0.\n`;

const memberName = (member) => {
  if (ts.isConstructSignatureDeclaration(member)) return "new";
  if (ts.isCallSignatureDeclaration(member)) return "()";
  return member.name === undefined ? "[]" : ts.isStringLiteral(member.name) ? member.name.text : member.name.getText();
};

/** The node less what is absent; `scope` is "Namespace." or empty. Undefined when nothing of it is left. */
const kept = (node, scope, lib) => {
  const { factory } = ts;
  if (ts.isVariableStatement(node)) {
    return node.declarationList.declarations.every((one) => !ABSENT.has(one.name.getText())) ? node : undefined;
  }
  const name = node.name === undefined ? "" : `${scope}${node.name.getText()}`;
  if (ABSENT.has(name) || ABSENT.has(`${lib}/${name}`)) return undefined;
  if (ts.isModuleDeclaration(node)) {
    const statements = node.body.statements.map((one) => kept(one, name === "global" ? "" : `${name}.`, lib));
    const body = factory.updateModuleBlock(node.body, statements.filter((one) => one !== undefined));
    return factory.updateModuleDeclaration(node, node.modifiers, node.name, body);
  }
  if (!ts.isInterfaceDeclaration(node)) return node;
  const members = node.members.filter((member) => !ABSENT.has(`${name}.${memberName(member)}`));
  return factory.updateInterfaceDeclaration(node, node.modifiers, node.name, node.typeParameters, node.heritageClauses, members);
};

const add = (lib) => {
  if (seen.has(lib) || FILES.has(lib)) return;
  seen.add(lib);
  const content = fs.readFileSync(path.join(folder, `lib.${lib}.d.ts`), "utf8");
  const source = ts.createSourceFile(lib, content, ts.ScriptTarget.ESNext, true);
  for (const reference of source.libReferenceDirectives) add(reference.fileName);
  let own = "";
  for (const statement of source.statements) {
    const node = kept(statement, "", lib);
    if (node !== undefined) own += `${printer.printNode(ts.EmitHint.Unspecified, node, source)}\n`;
  }
  // A file that is a module (it has names of its own) stays one, as a module that nothing imports.
  text += ts.isExternalModule(source) ? `declare module "language:${lib}" {\n${own.replaceAll(/^declare /gm, "")}}\n` : own;
};

add("esnext");
process.stdout.write(text + fs.readFileSync(process.argv[2], "utf8"));
