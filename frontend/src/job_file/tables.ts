/** Tables of a job file, such as parameters: rows of a name and a value. */

import { readEnvironment, type Variable, writeEnvironment } from "./environment.ts";
import { at, drop, type Path, plain, put } from "./file.ts";

export interface Row {
  name: string;
  value: string;
  /** A list or a mapping: shown, but changed in the file only. */
  whole?: true;
}

export const TABLES = ["parameters", "secrets", "storages", "ports", "environment"] as const;
export type Table = (typeof TABLES)[number];

/** Where a table stands. */
export function tablePath(table: Table, role: string): Path {
  if (table === "ports") return ["taskRoles", role, "resourcePerInstance", "ports"];
  if (table === "environment") return ["taskRoles", role, "commands"];
  return table === "storages" ? ["extras", "storages"] : [table];
}

export function readTable(text: string, table: Table, role = ""): Row[] {
  const found = at(plain(text), tablePath(table, role));
  if (table === "environment") return readEnvironment(found).variables.map(([name, value]) => ({ name, value }));
  if (table === "storages") return Array.isArray(found) ? found.map(storage) : [];
  if (typeof found !== "object" || found === null || Array.isArray(found)) return [];
  return Object.entries(found).map(([name, value]) =>
    typeof value === "object" && value !== null
      ? { name, value: JSON.stringify(value), whole: true as const }
      : { name, value: String(value ?? "") },
  );
}

/** The text with these rows instead. Rows that are as they were stay as they were typed. */
export function writeTable(text: string, table: Table, rows: readonly Row[], role = ""): string {
  const path = tablePath(table, role);
  if (table === "environment") return writeVariables(text, path, rows);
  if (rows.length === 0) return drop(text, path);
  if (table === "storages") return put(text, path, rows.map(mount));
  const before = at(plain(text), path);
  if (typeof before !== "object" || before === null || Array.isArray(before)) {
    return put(text, path, Object.fromEntries(rows.map((row) => [row.name, typed(row.value, table)])));
  }
  return writeEntries(text, path, rows, readTable(text, table, role), table);
}

function writeEntries(text: string, path: Path, rows: readonly Row[], present: readonly Row[], table: Table): string {
  const before = new Map(present.map((row) => [row.name, row]));
  const names = new Set(rows.map((row) => row.name));
  let next = text;
  for (const row of rows) {
    const old = before.get(row.name);
    if (!old || (!old.whole && old.value !== row.value)) next = put(next, [...path, row.name], typed(row.value, table));
  }
  for (const name of before.keys()) if (!names.has(name)) next = drop(next, [...path, name]);
  return next;
}

function writeVariables(text: string, path: Path, rows: readonly Row[]): string {
  const { rest } = readEnvironment(at(plain(text), path));
  return put(text, path, [...writeEnvironment(rows.map((row): Variable => [row.name, row.value])), ...rest]);
}

/** A number where it reads as one and is written back the same; secrets are texts. */
function typed(value: string, table: Table): string | number {
  const number = Number(value);
  return table !== "secrets" && value !== "" && String(number) === value && Number.isFinite(number) ? number : value;
}

function storage(item: unknown): Row {
  return { name: String(at(item, ["name"]) ?? ""), value: String(at(item, ["mountPath"]) ?? "") };
}

function mount(row: Row): Record<string, string> {
  return row.value === "" ? { name: row.name } : { name: row.name, mountPath: row.value };
}
