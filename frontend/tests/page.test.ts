import { describe, expect, test } from "vitest";

import { spanWords } from "../src/behaviours/times.ts";

describe("spans of time in words", () => {
  test.each([
    [0, "0 s"],
    [59, "59 s"],
    [60, "1 min"],
    [75, "1 min 15 s"],
    [3600, "1 h"],
    [7384, "2 h 3 min"],
    [90_000, "1 d 1 h"],
    [-5, "0 s"],
  ])("%d seconds are %s", (seconds, words) => expect(spanWords(seconds)).toBe(words));
});
