/** Task roles of a job file: their names, adding, removing and renaming them, and the image that each runs. */

import { at, drop, type Path, plain, put, rename } from "./file.ts";

const ROLE_NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

/** Sections that name task roles as keys. */
const BY_ROLE: Path[] = [["taskRoles"], ["extras", "hivedScheduler", "taskRoles"], ["extras", "berth", "elastic"]];

export function roleNames(job: unknown): string[] {
  const roles = at(job, ["taskRoles"]);
  return typeof roles === "object" && roles !== null && !Array.isArray(roles) ? Object.keys(roles) : [];
}

/** One role more, like the last one but for its commands. */
export function addRole(text: string): string {
  const job = plain(text);
  const names = roleNames(job);
  const like = at(job, ["taskRoles", names.at(-1) ?? ""]);
  const resources = at(like, ["resourcePerInstance"]) ?? { cpu: 1, memoryMB: 1024, gpu: 0 };
  const dockerImage = at(like, ["dockerImage"]) ?? imageName(job, "");
  const made = { instances: 1, dockerImage, resourcePerInstance: withoutPorts(resources), commands: [] };
  return put(text, ["taskRoles", freeName(names)], made);
}

/** Without the role, what was said of it elsewhere, and its image where no other role runs that. */
export function removeRole(text: string, role: string): string {
  const image = imageItem(plain(text), role);
  let next = text;
  for (const path of [...BY_ROLE, ...deployments(plain(text))]) next = drop(next, [...path, role]);
  const unused = image && !usersOf(plain(next), image.name).length;
  return unused ? drop(next, ["prerequisites", image.place]) : next;
}

/** The role under another name, wherever the file names it. As it was where the name cannot be, or is taken. */
export function renameRole(text: string, role: string, name: string): string {
  const job = plain(text);
  if (!ROLE_NAME.test(name) || roleNames(job).includes(name)) return text;
  let next = text;
  for (const path of [...BY_ROLE, ...deployments(job)]) next = rename(next, [...path, role], name);
  return next;
}

/** Where the address of a role's image stands; undefined where the file has none. */
export function imagePath(job: unknown, role: string): Path | undefined {
  const item = imageItem(job, role);
  return item && ["prerequisites", item.place, "uri"];
}

/** The text with another image for this role; roles that shared the old one keep it. */
export function withImage(text: string, role: string, uri: string): string {
  const job = plain(text);
  const item = imageItem(job, role);
  if (item && usersOf(job, item.name).length < 2) return put(text, ["prerequisites", item.place, "uri"], uri);
  const name = item ? freeImageName(job, role) : imageName(job, role);
  const made = { protocolVersion: 2, name, type: "dockerimage", uri };
  const items = prerequisites(job);
  const added = items.length > 0 ? put(text, ["prerequisites", items.length], made) : put(text, ["prerequisites"], [made]);
  return put(added, ["taskRoles", role, "dockerImage"], name);
}

function prerequisites(job: unknown): unknown[] {
  const items = at(job, ["prerequisites"]);
  return Array.isArray(items) ? items : [];
}

function imageItem(job: unknown, role: string): { name: string; place: number } | undefined {
  const name = at(job, ["taskRoles", role, "dockerImage"]);
  const place = prerequisites(job).findIndex((one) => at(one, ["type"]) === "dockerimage" && at(one, ["name"]) === name);
  return place < 0 ? undefined : { name: String(name), place };
}

function usersOf(job: unknown, image: string): string[] {
  return roleNames(job).filter((role) => at(job, ["taskRoles", role, "dockerImage"]) === image);
}

function imageName(job: unknown, role: string): string {
  return String(at(job, ["taskRoles", role, "dockerImage"]) ?? "image");
}

function freeImageName(job: unknown, role: string): string {
  const taken = new Set(prerequisites(job).map((one) => at(one, ["name"])));
  let name = `${role}_image`;
  for (let number = 2; taken.has(name); number += 1) name = `${role}_image${number}`;
  return name;
}

function freeName(names: readonly string[]): string {
  if (names.length === 0) return "worker";
  let number = names.length + 1;
  while (names.includes(`role${number}`)) number += 1;
  return `role${number}`;
}

function withoutPorts(resources: unknown): unknown {
  if (typeof resources !== "object" || resources === null) return resources;
  return Object.fromEntries(Object.entries(resources).filter(([key]) => key !== "ports"));
}

function deployments(job: unknown): Path[] {
  const items = at(job, ["deployments"]);
  return Array.isArray(items) ? items.map((_one, place) => ["deployments", place, "taskRoles"]) : [];
}
