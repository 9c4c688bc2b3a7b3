// Checks that dashboards have the properties that Grafana knows, with values of their types: node check.mjs FILE…
// Each file becomes a constant of the type in dashboard.ts, so that the compiler finds every property that is misspelt or mistyped.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const here = path.dirname(fileURLToPath(import.meta.url));
const sources = new Map();
for (const file of process.argv.slice(2)) {
  const text = readFileSync(file, 'utf8');
  JSON.parse(text); // more is valid in TypeScript
  // The constant begins on the line of the JSON's first, so that lines are those of the file.
  sources.set(path.join(here, `${path.basename(file)}.ts`), `import type { Dashboard } from './dashboard'; export const dashboard: Dashboard = ${text};`);
}
if (sources.size === 0) {
  console.error('no dashboard was given');
  process.exit(2);
}

const options = { strict: true, noEmit: true, skipLibCheck: true, types: [], target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler };
const host = ts.createCompilerHost(options);
const { fileExists, readFile, getSourceFile } = host;
host.fileExists = (name) => sources.has(path.normalize(name)) || fileExists(name);
host.readFile = (name) => sources.get(path.normalize(name)) ?? readFile(name);
host.getSourceFile = (name, version, ...rest) => {
  const text = sources.get(path.normalize(name));
  return text === undefined ? getSourceFile(name, version, ...rest) : ts.createSourceFile(name, text, version);
};
const program = ts.createProgram([...sources.keys()], options, host);
const problems = ts.getPreEmitDiagnostics(program);
for (const p of problems) {
  const where = p.file ? `${path.basename(p.file.fileName).replace(/\.json\.ts$/, '.json')}:${p.file.getLineAndCharacterOfPosition(p.start).line + 1}: ` : '';
  console.error(where + ts.flattenDiagnosticMessageText(p.messageText, '\n'));
}
process.exit(problems.length > 0 ? 1 : 0);
