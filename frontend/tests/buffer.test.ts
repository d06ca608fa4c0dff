import { expect, test } from "vitest";

import { LogBuffer } from "../src/logs/buffer.ts";
import { lineText, STDERR, STDOUT, type LogRecord } from "../src/logs/lines.ts";

const texts = (buffer: LogBuffer): string[] => buffer.lines.map(lineText);
const out = (text: string): LogRecord => [0, STDOUT, text];

test("a log read in two halves, the later one first, is the log", () => {
  const whole = "one\ntwo is longer\nthree\nfour\n";
  for (let border = 1; border < whole.length; border += 1) {
    const buffer = new LogBuffer(border);
    buffer.append([out(whole.slice(border))], whole.length);
    buffer.prepend([out(whole.slice(0, border))], 0);
    expect(texts(buffer)).toEqual(["one", "two is longer", "three", "four"]);
  }
});

test("a line cut by the border is mended in its own stream only", () => {
  const buffer = new LogBuffer(10);
  buffer.append([[0, STDERR, "rr\n"], out("ut\n")], 16);
  buffer.prepend([out("o"), [0, STDERR, "e"]], 0);
  expect(texts(buffer)).toEqual(["err", "out"]);
});

test("lines have numbers only when they were counted from the beginning", () => {
  const buffer = new LogBuffer(4);
  buffer.append([out("b\n")], 6);
  expect(buffer.before).toBeUndefined();
  buffer.prepend([out("a\n")], 0);
  expect(buffer.before).toBe(0);
});

test("the oldest lines are dropped beyond the limit, and the count goes on", () => {
  const buffer = new LogBuffer(0);
  buffer.append([out(Array.from({ length: 30 }, (_, line) => `${line}\n`).join(""))], 80);
  expect(buffer.trim(20, 20)).toBe(0);
  expect(buffer.trim(20, 5)).toBe(10);
  expect([buffer.before, buffer.dropped, texts(buffer)[0], buffer.start]).toEqual([10, 10, "10", undefined]);
});

test("search finds lines without regard to case and across colours", () => {
  const buffer = new LogBuffer(0);
  buffer.append([out("Loss: 1\nx\n\x1b[31mlo\x1b[0mSS again\n")], 30);
  expect(buffer.search("loss")).toEqual([0, 2]);
});

test("lines that are dropped at the end of a message can be read again from there", () => {
  const buffer = new LogBuffer(0);
  buffer.append([out("a\nb\n")], 100);
  buffer.append([out("c\nhalf")], 200);
  buffer.append([out(" a line\ne\n")], 300);
  expect(buffer.trim(1, 1)).toBe(2);
  expect([buffer.start, buffer.end, texts(buffer)]).toEqual([100, 300, ["c", "half a line", "e"]]);
  expect(buffer.offsetOf(0)).toBe(100);
});

test("what has no end yet stands as a line of its own until it comes", () => {
  const buffer = new LogBuffer(0);
  buffer.append([out("begun\n")], 6);
  buffer.tail([out("\r 10%|#"), [0, STDERR, "loading"]]);
  expect(texts(buffer)).toEqual(["begun", " 10%|#", "loading"]);
  expect(buffer.lines.map((line) => line.provisional)).toEqual([undefined, true, true]);

  buffer.tail([out("\r 20%|##"), [0, STDERR, "loading the model"]]);
  expect(texts(buffer)).toEqual(["begun", " 20%|##", "loading the model"]);

  buffer.append([out(" 10%|#\r 20%|##\r 30%|###\n")], 40);
  expect(texts(buffer)).toEqual(["begun", " 30%|###", "loading the model"]);
  expect(buffer.lines.map((line) => line.provisional)).toEqual([undefined, false, true]);
});

test("of a long line that comes in pieces the rest stands behind them, and is not twice in it", () => {
  const buffer = new LogBuffer(0);
  buffer.append([out("0123")], 4);
  buffer.tail([out("45")]);
  expect(texts(buffer)).toEqual(["012345"]);
  buffer.append([out("4567\n")], 9);
  expect(texts(buffer)).toEqual(["01234567"]);
});

test("what stands before is put in front of a line that has no end yet", () => {
  const buffer = new LogBuffer(4);
  buffer.append([out("cd")], 6);
  buffer.tail([out("ef")]);
  buffer.prepend([out("x\nab")], 0);
  expect(texts(buffer)).toEqual(["x", "abcdef"]);
  buffer.append([out("efg\n")], 10);
  expect(texts(buffer)).toEqual(["x", "abcdefg"]);
});
