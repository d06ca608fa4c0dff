import { expect, test } from "vitest";

import { Typing } from "../src/terminal/typing.ts";

const bytes = (length: number): Uint8Array => new Uint8Array(length);

function typing(): [Typing, number[]] {
  const sent: number[] = [];
  return [new Typing((piece) => sent.push(piece.length)), sent];
}

test("what is typed before the program begins waits for it", () => {
  const [made, sent] = typing();
  made.type(bytes(3));
  expect(sent).toEqual([]);
  made.open(10);
  expect(sent).toEqual([3]);
});

test("no more is under way than the program's window, and the rest follows as it is taken", () => {
  const [made, sent] = typing();
  made.open(33_000);
  made.type(bytes(70_000));
  expect(sent).toEqual([32_768]);
  made.taken(32_768);
  expect(sent).toEqual([32_768, 32_768]);
  made.taken(65_536);
  expect(sent).toEqual([32_768, 32_768, 4464]);
});
