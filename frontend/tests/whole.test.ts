import { describe, expect, test } from "vitest";

import { WholeLog, type Stretch } from "../src/logs/whole.ts";

const SIZE = 1000;
const STEP = 300;

/** A log of 1000 bytes that has the text at these offsets, searched 300 bytes at a time. */
function server(...offsets: number[]) {
  const asked: string[] = [];
  const get = async (address: string): Promise<Stretch> => {
    const query = new URL(address, "http://portal").searchParams;
    const backward = query.get("way") === "backward";
    const from = Number(query.get("offset") ?? (backward ? SIZE : 0));
    asked.push(`${backward ? "<" : ">"}${from}`);
    const [start, end] = backward ? [Math.max(0, from - STEP), from] : [from, Math.min(SIZE, from + STEP)];
    const found = offsets.filter((offset) => offset >= start && offset < end);
    if (backward) found.reverse();
    const next = backward ? start : end;
    const over = backward ? start === 0 : end === SIZE;
    const hits = query.get("limit") === "0" ? [] : found.map((offset) => ({ offset, text: "" }));
    return { start, end, log_end: SIZE, count: found.length, hits, next_offset: over ? null : next };
  };
  return { get, asked };
}

const never = (): AbortSignal => new AbortController().signal;

describe("a search in the whole of a log", () => {
  test.each([
    ["forward to the nearest", [100, 700, 900], 1, 400, 700],
    ["on from the beginning when the end is reached", [100], 1, 400, 100],
    ["backward to the nearest", [100, 700, 900], -1, 800, 700],
    ["on from the end when the beginning is reached", [900], -1, 400, 900],
    ["nowhere", [], 1, 400, undefined],
    ["nowhere backward", [], -1, 400, undefined],
  ] as const)("goes %s", async (_words, offsets, way, from, found) => {
    const { get } = server(...offsets);
    await expect(new WholeLog("/find?x", get).seek("a", from, way, never(), () => undefined)).resolves.toBe(found);
  });

  test("asks for nothing twice but the stretch that it began in, and says how far it is", async () => {
    const { get, asked } = server();
    const told: number[] = [];
    await new WholeLog("/find?x", get).seek("a", 400, 1, never(), (share) => told.push(share));
    expect(asked).toEqual([">400", ">700", ">0", ">300"]);
    expect(told.at(-1)).toBe(1);
  });

  test("ends when it is told to", async () => {
    const { get, asked } = server();
    const control = new AbortController();
    const search = new WholeLog("/find?x", get).seek("a", 0, 1, control.signal, () => control.abort());
    await expect(search).rejects.toThrow();
    expect(asked).toEqual([">0"]);
  });

  test.each([[1, 400], [-1, 400]] as const)("ends where the portal comes no further (%d)", async (way, from) => {
    const asked: string[] = [];
    const get = async (address: string): Promise<Stretch> => {
      asked.push(address);
      return { start: 400, end: 400, log_end: SIZE, count: 0, hits: [], next_offset: 400 };
    };
    const search = new WholeLog("/find?x", get);
    await expect(search.seek("a", from, way, never(), () => undefined)).resolves.toBeUndefined();
    await search.count("a", never(), () => undefined);
    expect(asked.length).toBeLessThan(6);
  });

  test("counts, and says of how much of the log", async () => {
    const { get } = server(1, 2, 350, 999);
    const told: [number, number][] = [];
    await new WholeLog("/find?x", get).count("a b&c", never(), (lines, share) => told.push([lines, share]));
    expect(told).toEqual([[2, 0.3], [3, 0.6], [3, 0.9], [4, 1]]);
  });
});
