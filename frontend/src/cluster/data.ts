/** What `/cluster/map` answers (portal/cluster/views/dots.py): lists instead of objects, names once. */
export type Place = "sick" | "held" | "lent" | "out" | "free";

type HolderDot = [vc: string, user: string, standing: string, job: number, label: string];
type GpuDot = [index: number, place: Place, holder: number, use: number, fault: string];
type NodeDot = [
  name: string,
  state: string,
  why: string,
  section: number,
  shape: number,
  sku: string,
  gpus: GpuDot[],
];

export interface Dots {
  vcs: string[];
  sections: string[];
  shapes: [string, number][][];
  holders: HolderDot[];
  nodes: NodeDot[];
}

export interface Holder {
  vc: string;
  user: string;
  /** 0: not to be told. */
  job: number;
  label: string;
}

export interface Gpu {
  index: number;
  place: Place;
  holder: Holder | undefined;
  /** Percent; -1: unknown. */
  use: number;
  fault: string;
}

export interface MapNode {
  name: string;
  /** open, cordoned, draining, lost or unknown. */
  state: string;
  why: string;
  section: string;
  sku: string;
  /** Cells inside it: name and GPUs, largest first. */
  groups: [string, number][];
  gpus: Gpu[];
}

export function nodesOf(dots: Dots): MapNode[] {
  const holders = dots.holders.map(([vc, user, , job, label]): Holder => ({ vc, user, job, label }));
  return dots.nodes.map(([name, state, why, section, shape, sku, gpus]) => ({
    name,
    state,
    why,
    section: dots.sections[section] ?? "",
    sku,
    groups: dots.shapes[shape] ?? [],
    gpus: gpus.map(([index, place, holder, use, fault]) => ({ index, place, holder: holders[holder], use, fault })),
  }));
}
