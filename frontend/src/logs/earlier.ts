/** Parts of a log that are not at its live end, over REST. */

import type { LogRecord } from "./lines.ts";

const PART = 512 * 1024;

export interface Part {
  records: LogRecord[];
  /** The log's offset of the first record. */
  from: number;
}

interface Answer {
  offset: number;
  next_offset: number;
  records: LogRecord[];
}

/**
 * The records before offset `until` (a record's boundary), about half a megabyte. `address` is that of the log's
 * records; `get` fetches it. Raises what `get` raises.
 */
export async function readEarlier(
  address: string,
  until: number,
  get: (address: string) => Promise<Answer> = fetchAnswer,
): Promise<Part> {
  let at = Math.max(0, until - PART);
  let from: number | undefined;
  const records: LogRecord[] = [];
  while (at < until) {
    const answer = await get(`${address}&offset=${at}&limit=${until - at}`);
    if (answer.next_offset <= at && answer.records.length === 0) break;
    from ??= answer.offset;
    records.push(...answer.records);
    at = answer.next_offset;
  }
  return { records, from: from ?? 0 };
}

export interface Later extends Part {
  /** The log's offset behind the last record. */
  to: number;
}

/** About half a megabyte from offset `from` on (rounded down to a record's boundary); nothing at the log's end. */
export async function readLater(
  address: string,
  from: number,
  get: (address: string) => Promise<Answer> = fetchAnswer,
): Promise<Later> {
  const answer = await get(`${address}&offset=${from}&limit=${PART}`);
  return { records: answer.records, from: answer.offset, to: answer.next_offset };
}

async function fetchAnswer(address: string): Promise<Answer> {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${response.status} for ${address}`);
  return (await response.json()) as Answer;
}
