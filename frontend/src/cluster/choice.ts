/** What somebody chose to see, as it stands in the address; and what of the map fits it. */
import type { Gpu, MapNode } from "./data.ts";
import { MODES, type Mode } from "./looks.ts";

export interface Choice {
  mode: Mode;
  /** Keys of the legend; none: everything. */
  only: ReadonlySet<string>;
  text: string;
}

export function choiceOf(search: string): Choice {
  const given = new URLSearchParams(search);
  const mode = MODES.find((one) => one === given.get("by")) ?? "vc";
  return { mode, only: new Set(given.getAll("only")), text: given.get("q") ?? "" };
}

/** The address of the page with this choice; what is the default is left out. */
export function addressOf(path: string, choice: Choice, others = ""): string {
  const given = new URLSearchParams(others);
  for (const name of ["by", "only", "q"]) given.delete(name);
  if (choice.mode !== "vc") given.set("by", choice.mode);
  for (const key of choice.only) given.append("only", key);
  if (choice.text) given.set("q", choice.text);
  const search = given.toString();
  return search ? `${path}?${search}` : path;
}

/** Whether node, cell, SKU, user, virtual cluster or job contain each of the words. */
export function fits(text: string, gpu: Gpu, node: MapNode): boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return true;
  const holder = gpu.holder;
  const said = [node.name, node.section, node.sku, holder?.user, holder?.vc, holder?.label, holder?.job || ""]
    .join("\n")
    .toLowerCase();
  return words.every((word) => said.includes(word));
}
