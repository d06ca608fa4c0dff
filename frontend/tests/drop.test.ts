import { describe, expect, test } from "vitest";

import { dropAt } from "../src/queue/drop.ts";

/** Rows of 20 px, the first one's middle at 10. */
const rows = ["a", "b", "c", "d"].map((job, place) => ({ job, middle: 10 + place * 20 }));

describe("a row that is dragged", () => {
  test.each([
    ["to the top", "c", -5, { way: "before", job: "a" }],
    ["over the middle of the one above", "c", 29, { way: "before", job: "b" }],
    ["just short of it", "c", 31, undefined],
    ["down past the next", "a", 31, { way: "before", job: "c" }],
    ["behind the last", "a", 500, { way: "after", job: "d" }],
    ["where it is", "b", 30, undefined],
    ["the last, further down", "d", 900, undefined],
    ["that has gone meanwhile", "x", 10, undefined],
  ])("%s", (_words, dragged, y, drop) => expect(dropAt(rows, dragged, y)).toEqual(drop));

  test("alone has no other place", () => expect(dropAt([{ job: "a", middle: 10 }], "a", 99)).toBeUndefined());

  test("passes over rows that are not of its kind, since only places among its own count", () => {
    const apart = [rows[0], rows[3]].filter((row) => row !== undefined);
    expect(dropAt(apart, "a", 60)).toBeUndefined();
    expect(dropAt(apart, "a", 71)).toEqual({ way: "after", job: "d" });
  });
});
