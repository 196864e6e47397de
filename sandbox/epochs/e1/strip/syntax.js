// Syntax that the sandbox does not run: each refusal says what to write instead.

const NESTING_MAX = 64;

const ERASABLE = "The sandbox only blanks types; it does not generate code from them.";

/** What the blanker reports: TypeScript that is more than types. */
export const refuseUnblankable = (ts, report, node) => {
  const { SyntaxKind } = ts;
  switch (node.kind) {
    case SyntaxKind.EnumDeclaration: {
      const sample = node.members
        .slice(0, 3)
        .map((member) => `${member.name.getText()}: ${member.initializer?.getText() ?? `"${member.name.getText()}"`}`)
        .join(", ");
      const name = node.name.text;
      return report.on(
        node,
        "enum_not_supported",
        `enum ${name} cannot be used. ${ERASABLE}`,
        `write \`const ${name} = { ${sample} } as const; type ${name} = (typeof ${name})[keyof typeof ${name}];\``,
      );
    }
    case SyntaxKind.ModuleDeclaration:
      return report.on(
        node,
        "namespace_not_supported",
        `namespaces with values cannot be used. ${ERASABLE}`,
        "write a plain object, or top-level functions and constants",
      );
    case SyntaxKind.TypeAssertionExpression:
      return report.on(
        node,
        "angle_assertion_not_supported",
        "`<Type>value` cannot be used.",
        "write `value as Type`",
      );
    case SyntaxKind.ImportEqualsDeclaration:
      return report.on(node, "import_equals_not_supported", "`import x = …` cannot be used.", 'write `import { x } from "rewind:tools"`, or `const x = …`');
    case SyntaxKind.ExportAssignment:
      return report.on(node, "export_equals_not_supported", "`export = …` cannot be used.", "write `export default …`");
    default:
      return report.on(
        node,
        "parameter_property_not_supported",
        `a constructor parameter with public, private, protected or readonly cannot be used. ${ERASABLE}`,
        "declare the field in the class and assign it in the constructor: `readonly x: number; constructor(x: number) { this.x = x; }`",
      );
  }
};

const BRACKETS = (ts) =>
  new Set([
    ts.SyntaxKind.ArrayLiteralExpression,
    ts.SyntaxKind.ObjectLiteralExpression,
    ts.SyntaxKind.ArrayBindingPattern,
    ts.SyntaxKind.ObjectBindingPattern,
    ts.SyntaxKind.Block,
    ts.SyntaxKind.CaseBlock,
    ts.SyntaxKind.ClassDeclaration,
    ts.SyntaxKind.ClassExpression,
    ts.SyntaxKind.TypeLiteral,
    ts.SyntaxKind.TupleType,
    ts.SyntaxKind.MappedType,
    ts.SyntaxKind.ParenthesizedExpression,
    ts.SyntaxKind.CallExpression,
    ts.SyntaxKind.TemplateExpression,
  ]);

/** Walk everything once. Gives the names that are used as values, so that imports of types can be left out. */
export const inspect = (ts, file, report) => {
  const used = new Set();
  const brackets = BRACKETS(ts);
  let deepest = false;
  const visit = (node, depth, inFunction) => {
    const nested = brackets.has(node.kind) ? depth + 1 : depth;
    if (nested > NESTING_MAX) {
      if (!deepest) report.on(node, "nested_too_deeply", `brackets are nested deeper than ${NESTING_MAX}.`, "split the code into functions, or read big data from a tool or the run's input");
      deepest = true;
      return;
    }
    if (ts.isTypeNode(node) && !ts.isExpressionWithTypeArguments(node)) return;
    if (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node) || ts.isImportDeclaration(node)) return;
    if (ts.isIdentifier(node)) used.add(node.text);
    check(ts, file, report, node, inFunction);
    const inside = inFunction || ts.isFunctionLike(node) || ts.isClassStaticBlockDeclaration(node);
    ts.forEachChild(node, (child) => visit(child, nested, inside));
  };
  ts.forEachChild(file, (node) => visit(node, 0, false));
  return used;
};

/** `import("x")`. An import of a computed name is left to reject at run time, as it does in any engine. */
const isLiteralImport = (ts, node) =>
  node.kind === ts.SyntaxKind.ImportKeyword &&
  ts.isCallExpression(node.parent) &&
  node.parent.arguments.length > 0 &&
  ts.isStringLiteralLike(node.parent.arguments[0]);

const check = (ts, file, report, node, inFunction) => {
  if (ts.isDecorator(node)) {
    report.on(node, "decorator_not_supported", "decorators cannot be used: the sandbox's engine does not have them.", "call a function on the class or method instead");
  } else if (node.kind === ts.SyntaxKind.AccessorKeyword) {
    report.on(node, "accessor_not_supported", "`accessor` cannot be used: the sandbox's engine does not have it.", "write a plain field, or `get` and `set`");
  } else if (isLiteralImport(ts, node)) {
    report.on(node, "dynamic_import_not_supported", "import() cannot be used.", 'import at the top: `import { … } from "rewind:tools"`');
  } else if (ts.isMetaProperty(node) && node.keywordToken === ts.SyntaxKind.ImportKeyword) {
    report.on(node, "import_meta_not_supported", "import.meta does not exist: a script has no file and no address.", "remove it");
  } else if (ts.isReturnStatement(node) && !inFunction) {
    report.on(node, "TS1108", "a `return` outside of a function.", "return from `main`");
  } else if (ts.isBinaryExpression(node) && file.text.startsWith("<!--", node.operatorToken.getStart(file))) {
    report.on(node.operatorToken, "html_comment_not_supported", "`<!--` is a comment in some engines.", "write spaces: `a < !(--b)`");
  }
};
