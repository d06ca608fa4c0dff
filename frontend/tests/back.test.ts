import { describe, expect, test } from "vitest";

import { Back } from "../src/logs/back.ts";

/** Lines of which the last `held` are there at first, and three more with each look back. */
function logs(lines: readonly string[], held: number) {
  let start = lines.length - held;
  let looks = 0;
  const back = new Back({
    left: () => start * 100,
    further: async () => {
      looks += 1;
      const front = Math.min(3, start);
      start -= front;
      return front;
    },
    search: (text) => lines.slice(start).flatMap((line, place) => (line.includes(text) ? [place] : [])),
    word: (name, value = "") => `${name}${value}`,
  });
  return { back, looks: () => looks };
}

const LINES = ["a", "b", "a", "c", "c", "c", "c", "b", "c"];

describe("a search in several logs", () => {
  test.each([
    ["before what is held goes back to the nearest", "a", -1, 1, 2],
    ["for what is nowhere here goes back in both ways", "a", 1, 1, 2],
    ["forward begins again with what is held", "b", 1, undefined, 0],
    ["goes back to the beginning before it says that there is none", "x", -1, undefined, 3],
  ] as const)("%s", async (_words, text, way, found, looks) => {
    const { back, looks: done } = logs(LINES, 2);
    expect([await back.go(way, text, () => undefined), done()]).toEqual([found, looks]);
    expect(back.words).toBe(text === "x" ? "nowhere" : "");
    expect(back.busy).toBe(false);
  });

  test("gives up, and says so, where nothing comes any more", async () => {
    let looks = 0;
    const back = new Back({
      left: () => 100,
      further: async () => {
        looks += 1;
        return 0;
      },
      search: () => [],
      word: (name) => name,
    }, async () => undefined);
    expect(await back.go(-1, "x", () => undefined)).toBeUndefined();
    expect([looks, back.words, back.busy]).toEqual([5, "unread", false]);
  });

  test("says how far it is", async () => {
    const { back } = logs(LINES, 3);
    const told: string[] = [];
    await back.go(-1, "x", () => told.push(back.words));
    expect(told).toEqual(["searching0", "searching50"]);
  });

  test("ends when it is told to", async () => {
    const { back, looks } = logs(LINES, 2);
    const search = back.go(-1, "x", () => back.end());
    expect(await search).toBeUndefined();
    expect([looks(), back.busy, back.words]).toEqual([1, false, ""]);
  });
});
