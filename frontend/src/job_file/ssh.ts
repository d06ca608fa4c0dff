/** OpenPAI's plug-in `ssh` in a job file: an entry of a list that has other plug-ins as well. */

import { at, drop, type Path, plain, put } from "./file.ts";

const PLUGINS: Path = ["extras", "com.microsoft.pai.runtimeplugin"];

export const sshPath = (): Path => PLUGINS;

/** Its place in the list; -1: the file does not have it. */
function place(job: unknown): number {
  const listed = at(job, PLUGINS);
  return Array.isArray(listed) ? listed.findIndex((entry) => at(entry, ["plugin"]) === "ssh") : -1;
}

export function hasSsh(job: unknown): boolean {
  return place(job) >= 0;
}

/** The text with the plug-in or without it; one that is there stays as it was typed. */
export function writeSsh(text: string, wanted: boolean): string {
  const job = plain(text);
  const found = place(job);
  if (wanted === found >= 0) return text;
  if (!wanted) return drop(text, [...PLUGINS, found]);
  const entry = { plugin: "ssh", parameters: { jobssh: true } };
  const listed = at(job, PLUGINS);
  return Array.isArray(listed) && listed.length > 0 ? put(text, [...PLUGINS, listed.length], entry) : put(text, PLUGINS, [entry]);
}
