import { expect, test } from "vitest";

import { rowsOf } from "../src/logs/width.ts";

test.each<[string, string, number, number]>([
  ["an empty line is one row", "", 10, 1],
  ["a line as wide as the view is one row", "x".repeat(10), 10, 1],
  ["one character more is a second row", "x".repeat(11), 10, 2],
  ["Chinese characters are two columns wide", "中".repeat(6), 10, 2],
  ["a wide character does not straddle the edge", `${"x".repeat(9)}中`, 10, 2],
  ["combining marks take no room", "e\u0301".repeat(10), 10, 1],
  ["a tab goes to the next stop", "\tx", 8, 2],
])("%s", (_, text, columns, expected) => expect(rowsOf(text, columns)).toBe(expected));
