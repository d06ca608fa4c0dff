/** Parts of a log that are not at its live end, over REST. */

import { lostRecord, type LogRecord } from "./lines.ts";

export const PART = 512 * 1024;

export interface Part {
  records: LogRecord[];
  /** The log's offset of the first record. */
  from: number;
}

interface Answer {
  offset: number;
  next_offset: number;
  records: LogRecord[];
  tail?: LogRecord[];
  complete?: boolean;
  lost_with?: string;
}

type Get = (address: string) => Promise<Answer>;

/**
 * The records before offset `until` (a record's boundary), about `size` bytes. Where bytes of the log are lost a line
 * says how many. `address` is that of the log's records; `get` fetches it. Raises what `get` raises.
 */
export async function readEarlier(address: string, until: number, get: Get = fetchAnswer, size = PART): Promise<Part> {
  let found = await between(address, Math.max(0, until - size), until, get);
  if (found.from === undefined && until > size) {
    found = await between(address, await beforeGap(address, until, get), until, get);
  }
  const { from, records, next } = found;
  if (from !== undefined) return { from, records };
  return { from: 0, records: next === undefined ? [] : [lostRecord(next, until)] };
}

interface Found {
  /** Undefined: there are no records. */
  from: number | undefined;
  records: LogRecord[];
  /** Time of the first record behind the place, where that is known. */
  next?: number;
}

/** The records that begin between two offsets. */
async function between(address: string, start: number, until: number, get: Get): Promise<Found> {
  const records: LogRecord[] = [];
  let from: number | undefined;
  let at = start;
  while (at < until) {
    const { offset, next_offset, records: read } = await get(`${address}&offset=${at}&limit=${until - at}`);
    const [first] = read;
    if (!first) break;
    const asked = at;
    at = Math.min(until, Math.max(at, offset));
    if (at > asked && from !== undefined) records.push(lostRecord(first[0], at - asked));
    if (offset >= until) return { from, records, next: first[0] };
    if (next_offset > until && at > asked) continue; // behind a gap more came than was wanted
    from ??= offset;
    records.push(...read);
    at = next_offset;
  }
  return { from, records };
}

/** Before a gap that ends at `until`: a place at most so far before it as one part is long. */
async function beforeGap(address: string, until: number, get: Get): Promise<number> {
  const begins = async (at: number, end: number): Promise<boolean> => {
    const { offset, records } = await get(`${address}&offset=${at}&limit=1`);
    return records.length > 0 && offset < end;
  };
  let [at, end, size] = [until, until, PART];
  do {
    [at, end, size] = [Math.max(0, at - size), at, size * 2];
  } while (at > 0 && !(await begins(at, end)));
  while (end - at > PART) {
    const middle = Math.floor((at + end) / 2);
    if (await begins(middle, end)) at = middle;
    else end = middle;
  }
  return at;
}

export interface Later extends Part {
  /** What there is behind the log's end of lines that have no end yet. */
  tail: LogRecord[];
  /** The log's offset behind the last record. */
  to: number;
  /** Nothing is added to the log any more; `lost`: the server that is gone with the rest. */
  complete: boolean;
  lost: string;
}

/** About half a megabyte from offset `from` on (rounded down to a record's boundary); nothing at the log's end. Where
 * bytes of the log are lost there, a line says how many. */
export async function readLater(address: string, from: number, get: Get = fetchAnswer): Promise<Later> {
  const { offset, next_offset, records, tail = [], ...end } = await get(`${address}&offset=${from}&limit=${PART}`);
  const [first] = records;
  const gap = first && offset > from ? [lostRecord(first[0], offset - from)] : [];
  const { complete = false, lost_with: lost = "" } = end;
  return { records: [...gap, ...records], tail, from: Math.min(from, offset), to: next_offset, complete, lost };
}

/** How the logs of several tasks stand. */
export interface Standing {
  task_attempt: string;
  name: string;
  end: number;
  complete: boolean;
  lost_with: string;
  tail: LogRecord[];
}

export async function readStandings(address: string): Promise<readonly Standing[]> {
  return (await fetchAnswer<{ logs: Standing[] }>(address)).logs;
}

async function fetchAnswer<Told = Answer>(address: string): Promise<Told> {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${response.status} for ${address}`);
  return (await response.json()) as Told;
}
