/** The form and the YAML text are two views of one job file: reading a field from it, writing one into it. */

import { readEnvironment, writeEnvironment } from "./environment.ts";
import { at, drop, type Path, plain, put } from "./file.ts";
import { imagePath, roleNames, withImage } from "./roles.ts";
import { hasSsh, sshPath, writeSsh } from "./ssh.ts";

type Kind = "text" | "number" | "flag" | "list";

interface Place {
  kind: Kind;
  /** Where it stands; `role` is empty for what is the whole job's. */
  path: (role: string) => Path;
  /** Must stand in every file: emptied, it stays there to be found missing. */
  required?: true;
  /** What it is when the file does not say; so it need not be written. */
  usual?: string;
}

const extras = (...rest: Path): (() => Path) => () => ["extras", ...rest];
const inRole = (...rest: Path): ((role: string) => Path) => (role) => ["taskRoles", role, ...rest];
const elastic = (key: string): ((role: string) => Path) => (role) => ["extras", "berth", "elastic", role, key];
const hived = (key: string): ((role: string) => Path) => (role) => ["extras", "hivedScheduler", "taskRoles", role, key];

export const JOB_FIELDS: Record<string, Place> = {
  name: { kind: "text", path: () => ["name"], required: true },
  vc: { kind: "text", path: () => ["defaults", "virtualCluster"], required: true },
  description: { kind: "text", path: () => ["description"] },
  retries: { kind: "number", path: () => ["jobRetryCount"] },
  gang: { kind: "flag", path: extras("gangAllocation"), usual: "true" },
  priority: { kind: "text", path: extras("hivedScheduler", "jobPriorityClass"), usual: "test" },
  tags: { kind: "list", path: extras("tags") },
  timeLimit: { kind: "number", path: extras("berth", "timeLimit") },
  gracePeriod: { kind: "number", path: extras("berth", "gracePeriod") },
  minRunTime: { kind: "number", path: extras("berth", "minRunTime") },
  borrow: { kind: "text", path: extras("berth", "borrow") },
  checkpointFile: { kind: "text", path: extras("berth", "checkpointFile") },
  after: { kind: "list", path: extras("berth", "after") },
  code: { kind: "text", path: extras("berth", "code") },
  ssh: { kind: "flag", path: sshPath },
};

export const ROLE_FIELDS: Record<string, Place> = {
  instances: { kind: "number", path: inRole("instances"), required: true },
  least: { kind: "number", path: elastic("min") },
  most: { kind: "number", path: elastic("max") },
  image: { kind: "text", path: inRole("dockerImage"), required: true },
  gpu: { kind: "number", path: inRole("resourcePerInstance", "gpu"), required: true },
  cpu: { kind: "number", path: inRole("resourcePerInstance", "cpu"), required: true },
  memoryMB: { kind: "number", path: inRole("resourcePerInstance", "memoryMB"), required: true },
  shmMB: { kind: "number", path: inRole("extraContainerOptions", "shmMB") },
  infiniband: { kind: "flag", path: inRole("extraContainerOptions", "infiniband"), usual: "false" },
  minFailed: { kind: "number", path: inRole("completion", "minFailedInstances") },
  minSucceeded: { kind: "number", path: inRole("completion", "minSucceededInstances") },
  taskRetries: { kind: "number", path: inRole("taskRetryCount") },
  sku: { kind: "text", path: hived("skuType") },
  reserved: { kind: "text", path: hived("pinnedCellId") },
  commands: { kind: "text", path: inRole("commands"), required: true },
};

export type Values = Record<string, string>;

export interface RoleView {
  name: string;
  values: Values;
}

export interface JobView {
  values: Values;
  roles: RoleView[];
}

/** The fields of a job file; undefined when it is not YAML at all. What is not said is not there. */
export function readJob(text: string): JobView | undefined {
  const job = plain(text);
  if (job === undefined) return undefined;
  const roles = roleNames(job).map((name) => ({ name, values: readValues(job, ROLE_FIELDS, name) }));
  return { values: readValues(job, JOB_FIELDS, ""), roles };
}

/** The text with one field changed. `role`: whose it is; without one the job's. */
export function writeField(text: string, field: string, value: string, role = ""): string {
  const place = (role ? ROLE_FIELDS : JOB_FIELDS)[field];
  if (!place) return text;
  if (field === "image") return withImage(text, role, value);
  if (field === "ssh") return writeSsh(text, value === "true");
  const path = place.path(role);
  if (field === "commands") return writeCommands(text, path, value);
  if (value === place.usual || (value === "" && !place.required)) return drop(text, path);
  if (place.kind === "flag") return put(text, path, value === "true");
  if (place.kind === "list") return writeList(text, path, value);
  return put(text, path, place.kind === "number" && /^-?\d{1,15}$/.test(value) ? Number(value) : value);
}

function readValues(job: unknown, places: Record<string, Place>, role: string): Values {
  const values: Values = {};
  for (const [field, place] of Object.entries(places)) {
    if (field === "ssh") {
      if (hasSsh(job)) values[field] = "true";
      continue;
    }
    const path = field === "image" ? imagePath(job, role) : place.path(role);
    const value = path && at(job, path);
    if (value === undefined) continue;
    if (field === "commands") values[field] = commandText(value);
    else values[field] = Array.isArray(value) ? value.join(", ") : String(value);
  }
  return values;
}

function commandText(commands: unknown): string {
  if (!Array.isArray(commands)) return String(commands);
  const { rest } = readEnvironment(commands);
  return rest.map((item) => String(item ?? "").trimEnd()).join("\n");
}

/** One item for each line; lines that belong together (a loop) stay one item of several lines. */
function writeCommands(text: string, path: Path, value: string): string {
  const { variables } = readEnvironment(at(plain(text), path));
  const together = value
    .split("\n")
    .some((line) => /^\s|^(done|fi|esac|else|elif|then|do)\b|\\$|[{(]$|<</.test(line));
  const rest = together ? [value] : value.split("\n").filter((line) => line.trim() !== "");
  return put(text, path, [...writeEnvironment(variables), ...rest]);
}

function writeList(text: string, path: Path, value: string): string {
  const items = value
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
  return items.length > 0 ? put(text, path, items) : drop(text, path);
}
