/** The simple form and the YAML text are two views of one job file: reading a field from it, writing one into it. */

import { type Document, isMap, isScalar, isSeq, parseDocument, Scalar, stringify } from "yaml";

export const FIELDS = ["name", "vc", "image", "instances", "gpu", "cpu", "memoryMB", "commands"] as const;
export type Field = (typeof FIELDS)[number];
export type Values = Partial<Record<Field, string>>;

const NUMBERS: ReadonlySet<Field> = new Set(["instances", "gpu", "cpu", "memoryMB"]);

type Path = (string | number)[];

/** The fields of a job file; undefined when it is not YAML at all. The form knows the first task role only. */
export function readFields(text: string): Values | undefined {
  const file = readable(text);
  if (!file) return undefined;
  const values: Values = {};
  for (const field of FIELDS) {
    const path = pathOf(file, field);
    const value: unknown = path && (file.getIn(path) as unknown);
    if (value === undefined || value === null) continue;
    values[field] = field === "commands" ? commandText(file, path as Path) : String(value);
  }
  return values;
}

/** The text with one field changed; everything else, comments included, stays as it was typed. */
export function writeField(text: string, field: Field, value: string): string {
  const file = readable(text);
  if (!file) return text;
  const path = pathOf(file, field) ?? makePath(file, field);
  const wanted = NUMBERS.has(field) && /^\d+$/.test(value) ? Number(value) : value;
  if (field === "commands") return writeCommands(file, path, value);
  return replaced(text, file, path, wanted) ?? written(file, path, wanted);
}

/** Task roles beyond the first, which the form cannot show. */
export function otherRoles(text: string): number {
  const roles = parseDocument(text).getIn(["taskRoles"]);
  return isMap(roles) ? Math.max(0, roles.items.length - 1) : 0;
}

/** The document, unless it is no mapping, has mistakes, or unfolds (aliases) to more than a form should touch. */
function readable(text: string): Document | undefined {
  const file = parseDocument(text);
  if (file.errors.length > 0 || (file.contents !== null && !isMap(file.contents))) return undefined;
  try {
    file.toJS();
  } catch {
    return undefined;
  }
  return file;
}

function pathOf(file: Document, field: Field): Path | undefined {
  if (field === "name") return ["name"];
  if (field === "vc") return ["defaults", "virtualCluster"];
  const role = firstRole(file);
  if (role === undefined) return undefined;
  if (field === "image") return imagePath(file, role);
  if (field === "instances" || field === "commands") return ["taskRoles", role, field];
  return ["taskRoles", role, "resourcePerInstance", field];
}

function firstRole(file: Document): string | undefined {
  const roles = file.getIn(["taskRoles"]);
  const key = isMap(roles) ? roles.items[0]?.key : undefined;
  return key === undefined ? undefined : String(isScalar(key) ? key.value : key);
}

function imagePath(file: Document, role: string): Path | undefined {
  const name: unknown = file.getIn(["taskRoles", role, "dockerImage"]);
  const items = (file.toJS() as { prerequisites?: unknown }).prerequisites;
  if (!Array.isArray(items)) return undefined;
  const place = items.findIndex((item) => item?.type === "dockerimage" && item?.name === name);
  return place < 0 ? undefined : ["prerequisites", place, "uri"];
}

/** Where a field belongs in a file that does not have it; what must stand around it is added. */
function makePath(file: Document, field: Field): Path {
  const role = firstRole(file) ?? "worker";
  if (field !== "image") return pathOf(file, field) ?? makeRole(file, role, field);
  const name = String(file.getIn(["taskRoles", role, "dockerImage"]) ?? "image");
  if (!isScalar(file.getIn(["taskRoles", role, "dockerImage"], true))) {
    file.setIn(["taskRoles", role, "dockerImage"], name);
  }
  const item = { protocolVersion: 2, name, type: "dockerimage", uri: "" };
  const items = (file.toJS() as { prerequisites?: unknown }).prerequisites;
  const place = Array.isArray(items) ? items.length : 0;
  if (place > 0) file.addIn(["prerequisites"], file.createNode(item));
  else file.setIn(["prerequisites"], file.createNode([item]));
  return ["prerequisites", place, "uri"];
}

function makeRole(file: Document, role: string, field: Field): Path {
  file.setIn(["taskRoles"], file.createNode({ [role]: { instances: 1, dockerImage: "image" } }));
  return pathOf(file, field) as Path;
}

/** Replaces a plain value where it stands in the text. Undefined: there is none, or it would not read back. */
function replaced(text: string, file: Document, path: Path, value: string | number): string | undefined {
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

function written(file: Document, path: Path, value: unknown): string {
  file.setIn(path, value);
  return file.toString({ lineWidth: 0 });
}

function commandText(file: Document, path: Path): string {
  const commands: unknown = file.getIn(path);
  if (!isSeq(commands)) return String(commands);
  return commands.items.map((item) => String(isScalar(item) ? (item.value ?? "") : item).trimEnd()).join("\n");
}

/** One item for each line; lines that belong together (a loop) stay one item of several lines. */
function writeCommands(file: Document, path: Path, value: string): string {
  const lines = value.split("\n");
  const together = lines.some((line) => /^\s|^(done|fi|esac|else|elif|then|do)\b|\\$|[{(]$|<</.test(line));
  return written(file, path, file.createNode(together ? [value] : lines.filter((line) => line.trim() !== "")));
}
