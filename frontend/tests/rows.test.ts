import { expect, test } from "vitest";

import { RowIndex } from "../src/logs/rows.ts";

/** A repeatable stream of numbers below `limit`. */
function* numbers(limit: number): Generator<number, never> {
  for (let seed = 1; ; seed = (seed * 48271) % 2147483647) yield seed % limit;
}

test("rows above a line and the line at a row agree with counting by hand", () => {
  const index = new RowIndex();
  const rows: number[] = [];
  const draw = numbers(5);
  for (let line = 0; line < 3000; line += 1) {
    rows.push(1 + draw.next().value);
    index.append(rows[line] as number);
  }
  for (let line = 0; line < 3000; line += 7) {
    rows[line] = 1 + draw.next().value;
    index.set(line, rows[line] as number);
  }
  let above = 0;
  rows.forEach((count, line) => {
    expect(index.before(line)).toBe(above);
    expect(index.lineAt(above)).toBe(line);
    expect(index.lineAt(above + count - 1)).toBe(line);
    above += count;
  });
  expect(index.total).toBe(above);
  expect(index.lineAt(above + 100)).toBe(2999);
});

test("an empty log has one place to be at", () => {
  expect(new RowIndex().lineAt(10)).toBe(0);
});
