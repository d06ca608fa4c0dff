/** A job file as text that is changed at one place: everything else, comments included, stays as it was typed. */

import { type Document, isMap, isScalar, isSeq, parseDocument, Scalar, stringify } from "yaml";

export type Path = (string | number)[];

/** The document, unless it is no mapping, has mistakes, or unfolds (aliases) to more than a form should touch. */
export function readable(text: string): Document | undefined {
  const file = parseDocument(text, { merge: true });
  if (file.errors.length > 0 || (file.contents !== null && !isMap(file.contents))) return undefined;
  try {
    file.toJS();
  } catch {
    return undefined;
  }
  return file;
}

/** What the file says, as plain values; undefined when it cannot be read. */
export function plain(text: string): unknown {
  const file = readable(text);
  return file ? (file.toJS() ?? {}) : undefined;
}

/** What stands at the path of a plain value; undefined where there is nothing. */
export function at(value: unknown, path: Path): unknown {
  let found = value;
  for (const step of path) {
    if (typeof found !== "object" || found === null) return undefined;
    found = (found as Record<string | number, unknown>)[step];
  }
  return found ?? undefined;
}

/** The text with `value` at `path`; what must stand around it is added. As it was where that cannot be. */
export function put(text: string, path: Path, value: unknown): string {
  return changed(text, (file) => {
    const inPlace = typeof value === "object" ? undefined : replaced(text, file, path, value);
    if (inPlace !== undefined) return inPlace;
    makeRoom(file, path);
    file.setIn(path, typeof value === "object" ? file.createNode(value) : value);
    return undefined;
  });
}

/** Parts that stay where they are, with nothing in them. */
const KEPT = new Set(["taskRoles", "resourcePerInstance", "prerequisites", "defaults"]);

/** The text without what stands at `path`, and without the sections that are empty then. */
export function drop(text: string, path: Path): string {
  return changed(text, (file) => {
    if (!file.deleteIn(path)) return text;
    for (let depth = path.length - 1; depth > 0; depth -= 1) {
      const around = path.slice(0, depth);
      const node = file.getIn(around, true);
      const empty = (isMap(node) || isSeq(node)) && node.items.length === 0;
      if (!empty || KEPT.has(String(around.at(-1)))) break;
      file.deleteIn(around);
    }
    return undefined;
  });
}

/** The text with the key at the end of `path` called otherwise; its place among the others stays. */
export function rename(text: string, path: Path, name: string): string {
  return changed(text, (file) => {
    const around = path.length > 1 ? file.getIn(path.slice(0, -1), true) : file.contents;
    if (!isMap(around)) return text;
    const pair = around.items.find(({ key }) => String(isScalar(key) ? key.value : key) === path.at(-1));
    if (!pair) return text;
    pair.key = file.createNode(name);
    return undefined;
  });
}

/** Applies `change` to the document; it may answer the text itself. As it was where the file has no room for it. */
function changed(text: string, change: (file: Document) => string | undefined): string {
  const file = readable(text);
  if (!file) return text;
  try {
    const done = change(file) ?? file.toString({ lineWidth: 0 });
    return readable(done) ? done : text;
  } catch {
    return text;
  }
}

/** Sections that are named and hold nothing yet become mappings, so that something can stand in them. */
function makeRoom(file: Document, path: Path): void {
  for (let depth = 1; depth < path.length; depth += 1) {
    const around = path.slice(0, depth);
    const node = file.getIn(around, true);
    if (isScalar(node) && (node.value === null || node.value === "")) file.setIn(around, file.createNode({}));
  }
}

/** Replaces a plain value where it stands in the text. Undefined: there is none, or it would not read back. */
function replaced(text: string, file: Document, path: Path, value: unknown): string | undefined {
  const node = file.getIn(path, true);
  if (!isScalar(node) || !node.range || node.type === Scalar.BLOCK_LITERAL || node.type === Scalar.BLOCK_FOLDED) {
    return undefined;
  }
  const [from, to] = node.range;
  const blank = from === to && text[from - 1] === ":" ? " " : "";
  const next = text.slice(0, from) + blank + stringify(value).trimEnd() + text.slice(to);
  const check = parseDocument(next);
  return check.errors.length === 0 && check.getIn(path) === value ? next : undefined;
}
