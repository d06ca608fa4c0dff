import { expect, test } from "vitest";

import { LogBuffer } from "../src/logs/buffer.ts";
import { readEarlier, readLater } from "../src/logs/earlier.ts";
import { lineText, STDOUT, type LogRecord } from "../src/logs/lines.ts";

/** A log of records of 100 bytes each, served as the portal does: at most `limit` bytes, at least one record. */
function server(count: number) {
  const asked: string[] = [];
  const get = async (address: string) => {
    asked.push(address);
    const query = new URL(address, "http://portal").searchParams;
    const first = Math.floor(Number(query.get("offset")) / 100);
    const some = Math.min(Math.max(1, Math.floor(Number(query.get("limit")) / 100)), 3000, count - first);
    const records = Array.from({ length: some }, (_, at): LogRecord => [0, STDOUT, `line ${first + at}\n`]);
    return { offset: first * 100, next_offset: (first + some) * 100, records };
  };
  return { get, asked };
}

test("earlier parts, one after the other, make up the log without gap or doubling", async () => {
  const { get } = server(20_000);
  const buffer = new LogBuffer(1_900_000);
  buffer.append(Array.from({ length: 1000 }, (_, at): LogRecord => [0, STDOUT, `line ${19_000 + at}\n`]), 2_000_000);
  while (buffer.start) {
    const part = await readEarlier("/logs?x", buffer.start, get);
    buffer.prepend(part.records, part.from);
  }
  expect(buffer.lines.map(lineText)).toEqual(Array.from({ length: 20_000 }, (_, at) => `line ${at}`));
});

test("a part of the log that is lost ends the reading instead of asking for ever", async () => {
  const get = async () => ({ offset: 0, next_offset: 0, records: [] });
  await expect(readEarlier("/logs?x", 1000, get)).resolves.toEqual({ records: [], from: 0 });
});

test("later parts begin at a record's boundary and end at the log's end", async () => {
  const { get } = server(1000);
  const middle = await readLater("/logs?x", 99_850, get);
  expect([middle.from, middle.to, middle.records.length]).toEqual([99_800, 100_000, 2]);
  expect((await readLater("/logs?x", 100_000, get)).records).toEqual([]);
});
