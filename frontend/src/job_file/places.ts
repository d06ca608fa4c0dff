/** Which field of the form a problem of the file belongs to: the one that stands nearest above its path. */

import type { Problem } from "./check.ts";
import { JOB_FIELDS, ROLE_FIELDS } from "./fields.ts";
import { type Path, plain } from "./file.ts";
import { imagePath, roleNames } from "./roles.ts";
import { tablePath } from "./tables.ts";

/** A field by name, and the place of its task role; no role: the job's. */
export interface Place {
  field: string;
  role?: number;
}

/** The problems that each field has, in the file's order. What belongs to none is left out. */
export function placed(text: string, problems: readonly Problem[]): [Place, Problem[]][] {
  const known = places(plain(text));
  const found = new Map<Place, Problem[]>();
  for (const problem of problems) {
    let best: [string, Place] | undefined;
    for (const [path, place] of known) {
      if (holds(path, problem.path) && path.length >= (best?.[0].length ?? 0)) best = [path, place];
    }
    if (best) found.set(best[1], [...(found.get(best[1]) ?? []), problem]);
  }
  return [...found];
}

function holds(above: string, path: string): boolean {
  return path.startsWith(above) && ["", ".", "["].includes(path.charAt(above.length));
}

function places(job: unknown): [string, Place][] {
  const known: [string, Place][] = [
    ["taskRoles", { field: "roles" }],
    ["defaults", { field: "vc" }],
    ...Object.entries(JOB_FIELDS).map(([field, place]): [string, Place] => [pathText(place.path("")), { field }]),
    ...(["parameters", "secrets", "storages"] as const).map((table): [string, Place] => [
      pathText(tablePath(table, "")),
      { field: table },
    ]),
  ];
  roleNames(job).forEach((name, role) => known.push(...ofRole(job, name, role)));
  return known;
}

function ofRole(job: unknown, name: string, role: number): [string, Place][] {
  const image = imagePath(job, name);
  return [
    [`taskRoles.${name}`, { field: "role", role }],
    [`extras.hivedScheduler.taskRoles.${name}`, { field: "sku", role }],
    [pathText(tablePath("ports", name)), { field: "ports", role }],
    ...(image ? [[pathText(image), { field: "image", role }] as [string, Place]] : []),
    ...Object.entries(ROLE_FIELDS).map(([field, place]): [string, Place] => [pathText(place.path(name)), { field, role }]),
  ];
}

/** A path as the server writes it: `prerequisites[0].uri`. */
function pathText(path: Path): string {
  return path.map((step, place) => (typeof step === "number" ? `[${step}]` : `${place > 0 ? "." : ""}${step}`)).join("");
}
