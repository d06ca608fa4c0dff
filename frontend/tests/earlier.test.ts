import { expect, test } from "vitest";

import { LogBuffer } from "../src/logs/buffer.ts";
import { readEarlier, readLater } from "../src/logs/earlier.ts";
import { lineText, MARK, STDOUT, type LogRecord } from "../src/logs/lines.ts";

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

/** The same log of which these bytes (whole records) are lost. */
function holed(count: number, from: number, to: number) {
  const { get: whole, asked } = server(count);
  const get = async (address: string) => {
    const query = new URL(address, "http://portal").searchParams;
    const [at, limit] = [Number(query.get("offset")), Number(query.get("limit"))];
    if (at >= from && at < to) return whole(`/logs?offset=${to}&limit=${limit}`);
    return at < from ? whole(`/logs?offset=${at}&limit=${Math.min(limit, from - at)}`) : whole(address);
  };
  return { get, asked };
}

const lost = (bytes: number): string => `… ${bytes} bytes of this log are lost`;

test.each([
  [0, 50_000],
  [100_000, 150_000],
  [600_000, 1_600_000],
  [0, 1_950_000],
  [5_000, 1_900_000],
])("over a hole from %d to %d earlier parts make up the log without doubling, and say how much is lost", async (from, to) => {
  const { get, asked } = holed(20_000, from, to);
  const buffer = new LogBuffer(1_990_000);
  buffer.append(Array.from({ length: 100 }, (_, at): LogRecord => [0, STDOUT, `line ${19_900 + at}\n`]), 2_000_000);
  for (let parts = 0; buffer.start && parts < 20; parts++) {
    const part = await readEarlier("/logs?x", buffer.start, get);
    buffer.prepend(part.records, part.from);
  }
  const line = (_: unknown, at: number): string => `line ${at}`;
  const all = Array.from({ length: 20_000 }, line);
  expect(buffer.lines.map(lineText)).toEqual([...all.slice(0, from / 100), lost(to - from), ...all.slice(to / 100)]);
  expect(asked.length).toBeLessThan(40);
});

test("a later part says what is lost before it", async () => {
  const later = await readLater("/logs?x", 1000, holed(100, 1000, 3000).get);
  expect(later.records.slice(0, 2)).toEqual([[0, MARK, `${lost(2000)}\n`], [0, STDOUT, "line 30\n"]]);
});

test("later parts begin at a record's boundary and end at the log's end", async () => {
  const { get } = server(1000);
  const middle = await readLater("/logs?x", 99_850, get);
  expect([middle.from, middle.to, middle.records.length]).toEqual([99_800, 100_000, 2]);
  expect((await readLater("/logs?x", 100_000, get)).records).toEqual([]);
});
