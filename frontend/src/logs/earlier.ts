/** What stands before the loaded part of a log, over REST. */

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

async function fetchAnswer(address: string): Promise<Answer> {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${response.status} for ${address}`);
  return (await response.json()) as Answer;
}
