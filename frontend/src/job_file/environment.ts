/** Environment variables of a task role: `export NAME=value` at the beginning of its commands. */

export type Variable = [name: string, value: string];

const EXPORT = /^export ([A-Za-z_][A-Za-z0-9_]*)=((?:'[^'\n]*'|\\')*|"[^"$`\\\n]*"|[\w@%+=:,./-]*)\s*$/;
const PLAIN = /^[\w@%+=:,./-]*$/;

/** What the commands begin with, and the others. A value that the shell would work out is left among the others. */
export function readEnvironment(commands: unknown): { variables: Variable[]; rest: unknown[] } {
  const items: unknown[] = Array.isArray(commands) ? commands : [];
  const variables: Variable[] = [];
  for (const item of items) {
    const found = typeof item === "string" ? EXPORT.exec(item) : null;
    if (!found) break;
    variables.push([found[1] as string, unquoted(found[2] as string)]);
  }
  return { variables, rest: items.slice(variables.length) };
}

export function writeEnvironment(variables: readonly Variable[]): string[] {
  return variables.map(([name, value]) => `export ${name}=${PLAIN.test(value) ? value : quoted(value)}`);
}

function quoted(value: string): string {
  return `'${value.replaceAll("'", "'\\''")}'`;
}

function unquoted(value: string): string {
  if (value.startsWith('"')) return value.slice(1, -1);
  return value.replace(/'([^']*)'|\\(')/g, (_all, inside: string | undefined, quote: string | undefined) => inside ?? quote ?? "");
}
