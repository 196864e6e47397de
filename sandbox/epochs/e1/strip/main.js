// Entry of the stripper of epoch 1: TypeScript source in, JavaScript with the same positions out, or refusals.
import { blankSourceFile } from "ts-blank-space";
import ts from "typescript";
import { inspect, refuseUnblankable } from "./syntax.js";
import { newReport } from "./positions.js";
import { readModule } from "./modules.js";
import { resultOffset } from "./returns.js";

const MAILBOX = 4_000_000_000;
const mailbox = globalThis[MAILBOX];
const pull = globalThis.__pull;

const parse = (source) =>
  ts.createSourceFile(
    "script.ts",
    source,
    {
      languageVersion: ts.ScriptTarget.ESNext,
      // Always a module, also without imports: top-level await is then a statement, not a name.
      setExternalModuleIndicator: (file) => {
        file.externalModuleIndicator = true;
      },
    },
    true,
    ts.ScriptKind.TS,
  );

/** Edits of the blanked text, none of which moves what follows on its line. */
const newEdits = () => {
  const edits = [];
  return {
    over: (start, end, text) => edits.push({ start, end, text }),
    /** A blanked statement leaves a semicolon, so that its neighbours do not join. */
    blank: (start, end) => edits.push({ start, end, text: ";" }),
    after: (offset, text) => edits.push({ start: offset, end: offset, text }),
    apply: (js) => {
      edits.sort((a, b) => b.start - a.start);
      let out = js;
      for (const { start, end, text } of edits) {
        const kept = out.slice(start + text.length, end).replace(/[^\r\n\u2028\u2029]/g, " ");
        out = out.slice(0, start) + text + kept + out.slice(end);
      }
      return out;
    },
  };
};

const strip = (source) => {
  const file = parse(source);
  const report = newReport(ts, file);
  for (const problem of file.parseDiagnostics) {
    report.at(problem.start, problem.start + problem.length, `TS${problem.code}`, ts.flattenDiagnosticMessageText(problem.messageText, " "), null);
  }
  const refused = () => ({ compiled: null, diagnostics: report.diagnostics });
  if (report.diagnostics.length > 0) return refused();
  const used = inspect(ts, file, report);
  const blanked = blankSourceFile(file, (node) => refuseUnblankable(ts, report, node));
  const edits = newEdits();
  const { params, main } = readModule(ts, file, report, used, edits);
  if (report.diagnostics.length > 0) return refused();
  const [line, column] = report.place(resultOffset(ts, file, main));
  return { compiled: { js: edits.apply(blanked), params, main, line, column }, diagnostics: [] };
};

const tooComplex = {
  compiled: null,
  diagnostics: [
    {
      severity: "error",
      code: "nested_too_deeply",
      message: "The script is nested too deeply to be read.",
      line: 1,
      column: 1,
      end_line: 1,
      end_column: 1,
      hint: "split long chains of operators and deep brackets; read big data from a tool or the run's input",
    },
  ],
};

const answer = (source) => {
  try {
    return strip(source);
  } catch (error) {
    if (error instanceof RangeError) return tooComplex;
    throw error;
  }
};

export default function entry() {
  pull();
  return JSON.stringify(answer(mailbox[0]));
}
