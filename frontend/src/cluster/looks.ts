/** How a GPU looks: by what the map is coloured, its key in the legend, its colour, and a letter beside the colour. */
import type { Gpu, MapNode } from "./data.ts";

export const MODES = ["vc", "right", "use", "health"] as const;
export type Mode = (typeof MODES)[number];

export interface Look {
  /** Under which it stands in the legend: `free`, `vc:vision`, `use:3`. */
  key: string;
  /** A second key under which it is counted and found: a sick GPU of a team. */
  also?: string;
  /** Its class in the style sheet. */
  style: string;
  letter: string;
}

const FREE: Look = { key: "free", style: "is-free", letter: "" };
const SICK: Look = { key: "sick", style: "is-sick", letter: "×" };
const OUT: Look = { key: "out", style: "is-out", letter: "" };
const HELD: Look = { key: "held", style: "is-held", letter: "Q" };
const LENT: Look = { key: "lent", style: "is-lent", letter: "L" };
/** Among teams: their colour says whose it is, the cut corner that it is on loan. */
const LENT_BY_TEAMS: Look = { key: "lent", style: "vc-any is-lent", letter: "" };
const UNKNOWN: Look = { key: "unknown", style: "is-unknown", letter: "?" };
const WELL: Look = { key: "well", style: "is-well", letter: "✓" };
const LOST: Look = { key: "lost", style: "is-sick", letter: "?" };

const CLOSED: Record<string, string> = { draining: "↓", cordoned: "–" };

/** From so many percent on; the first is "does next to nothing". */
export const BANDS = [0, 5, 30, 60, 90] as const;
const COLOURS = 8;

/** A letter or two for each virtual cluster, of what tells its name from the others': the first one where that is not
 * taken, of a number all of it. */
export function lettersOf(vcs: readonly string[]): Map<string, string> {
  const taken = new Set<string>();
  const found = new Map<string, string>();
  const alike = vcs.length > 1 ? begunAlike(vcs) : 0;
  for (const name of vcs) {
    const rest = name.slice(alike);
    const own = [...rest.toUpperCase()].filter((letter) => /[A-Z0-9]/.test(letter));
    const number = /^0*(\d{1,2})$/.exec(rest)?.[1];
    const pairs = own.slice(1).map((letter) => `${own[0]}${letter.toLowerCase()}`);
    const numbered = Array.from({ length: vcs.length + 1 }, (_, place) => `${own[0] ?? "V"}${place}`);
    const letters = [...(number ? [number] : own.slice(0, 1)), ...pairs, ...numbered];
    const letter = letters.find((one) => !taken.has(one)) ?? "?";
    taken.add(letter);
    found.set(name, letter);
  }
  return found;
}

/** How many characters all names begin with alike; a number is not cut in two. */
function begunAlike(names: readonly string[]): number {
  const first = names[0] ?? "";
  let length = 0;
  while (length < first.length && names.every((name) => name[length] === first[length])) length += 1;
  while (length > 0 && /\d/.test(first[length - 1] ?? "")) length -= 1;
  return length;
}

export class Looks {
  readonly mode: Mode;
  readonly #places: Map<string, number>;
  readonly #letters: Map<string, string>;

  /** `vcs` in an order that stays, so that a team keeps its colour. */
  constructor(mode: Mode, vcs: readonly string[]) {
    this.mode = mode;
    this.#places = new Map(vcs.map((name, place) => [name, place]));
    this.#letters = lettersOf(vcs);
  }

  of(gpu: Gpu, node: MapNode): Look {
    if (this.mode === "health") return health(gpu, node);
    if (gpu.place === "sick" && (this.mode !== "vc" || !gpu.holder)) return SICK;
    if (gpu.place === "free") return FREE;
    if (gpu.place === "out" || !gpu.holder) return OUT;
    if (this.mode === "right") return gpu.place === "lent" ? LENT : HELD;
    return this.mode === "use" ? use(gpu.use) : this.#team(gpu);
  }

  /** A virtual cluster's part of the legend. */
  team(vc: string): Look {
    const colour = (this.#places.get(vc) ?? 0) % COLOURS;
    return { key: `vc:${vc}`, style: `vc-${colour}`, letter: this.#letters.get(vc) ?? "?" };
  }

  /** What stands in the legend under this key. */
  named(key: string): Look {
    if (key.startsWith("vc:")) return this.team(key.slice(3));
    if (key === LENT.key && this.mode === "vc") return LENT_BY_TEAMS;
    if (key.startsWith("use:")) return { ...use(BANDS[Number(key.slice(4))] ?? 0), letter: "" };
    const closed = { key, style: "is-closed", letter: CLOSED[key] ?? "" };
    return [FREE, SICK, OUT, HELD, LENT, UNKNOWN, WELL, LOST].find((look) => look.key === key) ?? closed;
  }

  #team(gpu: Gpu): Look {
    const look = this.team(gpu.holder?.vc ?? "");
    if (gpu.place === "sick") return { ...look, also: SICK.key, style: `${look.style} is-faulty` };
    return gpu.place === "lent" ? { ...look, also: LENT.key, style: `${look.style} is-lent` } : look;
  }
}

function use(percent: number): Look {
  if (percent < 0) return UNKNOWN;
  const band = BANDS.filter((from) => percent >= from).length - 1;
  return { key: `use:${band}`, style: `use-${band}`, letter: String(Math.min(99, percent)) };
}

function health(gpu: Gpu, node: MapNode): Look {
  if (node.state === "lost") return LOST;
  if (gpu.place === "sick") return SICK;
  if (node.state === "open") return gpu.place === "out" ? OUT : WELL;
  return { key: node.state, style: "is-closed", letter: CLOSED[node.state] ?? "…" };
}
