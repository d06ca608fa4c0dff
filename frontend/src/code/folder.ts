/** What of a folder is packed: all but `.git` and what `.gitignore` and `.berthignore` name, by git's rules. */

import ignore, { type Ignore } from "ignore";

import { type Limits, amount, type Packed, Refusal } from "./refusal.ts";

const RULES = [".gitignore", ".berthignore"];

interface Rules {
  /** The folder that they stand in, with a slash at its end; empty for the top. */
  folder: string;
  rules: Ignore;
}

/** The files of the folder that come along, by their order. Raises Refusal where there are none, or too many. */
export async function chosen(files: readonly Packed[], limits: Limits): Promise<Packed[]> {
  const inside = withoutTop(files.filter((file) => !file.path.split("/").includes(".git")));
  const rules = await rulesOf(inside);
  const kept = inside.filter((file) => !ignored(file.path, rules));
  const total = kept.reduce((sum, file) => sum + file.content.size, 0);
  if (kept.length === 0) throw new Refusal("Empty");
  if (kept.length > limits.entries) throw new Refusal("TooMany", { most: String(limits.entries), count: String(kept.length) });
  if (total > limits.unpacked) throw new Refusal("TooLarge", { size: amount(total), most: amount(limits.unpacked) });
  return kept;
}

/** A folder that holds everything is the folder of code itself. */
function withoutTop(files: readonly Packed[]): Packed[] {
  const top = files[0]?.path.split("/")[0] ?? "";
  const all = files.length > 0 && files.every((file) => file.path.startsWith(`${top}/`));
  return all ? files.map((file) => ({ ...file, path: file.path.slice(top.length + 1) })) : [...files];
}

/** The deeper folder's after its parents', and `.berthignore` after `.gitignore`: the last that says something holds. */
async function rulesOf(files: readonly Packed[]): Promise<Rules[]> {
  const found: { folder: string; rank: number; rules: Ignore }[] = [];
  for (const file of files) {
    const cut = file.path.lastIndexOf("/") + 1;
    const rank = RULES.indexOf(file.path.slice(cut));
    if (rank >= 0) found.push({ folder: file.path.slice(0, cut), rank, rules: ignore().add(await file.content.text()) });
  }
  const depth = (folder: string): number => folder.split("/").length;
  return found.sort((one, other) => depth(one.folder) - depth(other.folder) || one.rank - other.rank);
}

function ignored(path: string, rules: readonly Rules[]): boolean {
  const parts = path.split("/");
  return parts.some((_part, place) => {
    const whole = place === parts.length - 1;
    return said(parts.slice(0, place + 1).join("/") + (whole ? "" : "/"), rules);
  });
}

function said(path: string, rules: readonly Rules[]): boolean {
  let out = false;
  for (const { folder, rules: own } of rules) {
    if (!path.startsWith(folder) || path === folder) continue;
    const inside = path.slice(folder.length);
    const verdict = own.test(inside);
    // A folder that others take back in takes back what lies in it.
    out = (verdict.ignored && !own.test(parent(inside)).ignored) || (out && !verdict.unignored);
  }
  return out;
}

/** The folder around it, with a slash; of the top one itself a name that no rule means. */
function parent(path: string): string {
  const cut = path.replace(/\/$/, "").lastIndexOf("/") + 1;
  return cut > 0 ? path.slice(0, cut) : "\u0001";
}
