import { expect, test, vi } from "vitest";

import { lineText, STDOUT, type LogRecord } from "../src/logs/lines.ts";
import { MergedBuffer } from "../src/logs/merged_buffer.ts";
import { MergedFeed } from "../src/logs/merged_feed.ts";
import { withoutSockets } from "./sockets.ts";

const at = (time: number, text: string): LogRecord => [time, STDOUT, text];
const said = (buffer: MergedBuffer): string[] => buffer.lines.map((line) => `${line.task?.name} ${lineText(line)}`);

function two(): MergedBuffer {
  const buffer = new MergedBuffer();
  buffer.add("a", "worker/0");
  buffer.add("b", "worker/1");
  return buffer;
}

test("lines of several tasks stand in the order of their times, in whatever order they come", () => {
  const buffer = two();
  buffer.append("a", [at(10, "a1\n"), at(30, "a2\n")], 0);
  buffer.append("b", [at(20, "b1\n"), at(30, "b2\n")], 0);
  buffer.append("a", [at(25, "a3, by a clock that was set back\n")], 100);
  expect(said(buffer)).toEqual([
    "worker/0 a1", "worker/1 b1", "worker/0 a2", "worker/1 b2", "worker/0 a3, by a clock that was set back",
  ]);
});

test("a line that comes in pieces between those of another task stays one, at the place where it began", () => {
  const buffer = two();
  buffer.append("a", [at(10, "half ")], 0);
  buffer.append("b", [at(11, "whole\n")], 0);
  buffer.append("a", [at(12, "a line\n")], 18);
  expect(said(buffer)).toEqual(["worker/0 half a line", "worker/1 whole"]);
});

test("the view learns from where on lines are others than before", () => {
  const buffer = two();
  buffer.append("a", [at(10, "1\n"), at(20, "2\n"), at(30, "3\n")], 0);
  buffer.changedFrom = Number.POSITIVE_INFINITY;
  buffer.append("b", [at(15, "between\n")], 0);
  expect(buffer.changedFrom).toBe(1);
});

test("nothing is shown that is older than what is held of every log, until that is read", () => {
  const buffer = two();
  buffer.append("a", [at(5, "old\n"), at(100, "a\n")], 700);
  buffer.append("b", [at(50, "b1\n"), at(101, "b2\n")], 900);
  expect(said(buffer)).toEqual(["worker/1 b1", "worker/0 a", "worker/1 b2"]);
  expect(buffer.reach).toEqual({ a: 700, b: 900 });
  const shown = buffer.prepend([{ log: "b", from: 0, to: 900, records: [at(3, "first\n"), at(7, "b0\n")] }]);
  expect(shown).toBe(2);
  expect(said(buffer).slice(0, 3)).toEqual(["worker/0 old", "worker/1 b0", "worker/1 b1"]);
  buffer.prepend([{ log: "a", from: 0, to: 700, records: [at(1, "begin\n")] }]);
  expect(said(buffer).slice(0, 3)).toEqual(["worker/0 begin", "worker/1 first", "worker/0 old"]);
  expect(buffer.reach).toEqual({});
});

test("what is lost is told where it stood, and nothing is asked for before a beginning that is lost", () => {
  const buffer = two();
  buffer.append("a", [at(100, "a2\n")], 700);
  buffer.append("b", [at(90, "b2\n")], 300);
  buffer.prepend([{ log: "a", from: 100, to: 400, records: [at(50, "a1\n")] }, { log: "b", from: 0, to: 0, records: [] }]);
  expect(buffer.reach).toEqual({ a: 100 });
  buffer.prepend([{ log: "a", from: 0, to: 0, records: [] }]);
  expect(said(buffer)).toEqual([
    "worker/0 … 100 bytes of this log are lost", "worker/0 a1", "worker/1 … 300 bytes of this log are lost",
    "worker/1 b2", "worker/0 … 300 bytes of this log are lost", "worker/0 a2",
  ]);
  expect(buffer.reach).toEqual({});
});

test("lines of one time that are read back stand before those that were there", () => {
  const buffer = two();
  buffer.append("a", [at(10, "third\n")], 200);
  buffer.append("b", [at(20, "last\n")], 100);
  buffer.prepend([{ log: "a", from: 100, to: 200, records: [at(10, "second\n")] }]);
  buffer.prepend([
    { log: "a", from: 0, to: 100, records: [at(10, "first\n")] }, { log: "b", from: 0, to: 100, records: [at(1, "b\n")] },
  ]);
  expect(said(buffer)).toEqual(["worker/1 b", "worker/0 first", "worker/0 second", "worker/0 third", "worker/1 last"]);
});

test("what comes live is shown though its server's clock is behind, and what opens a log waits for its time", () => {
  const buffer = two();
  buffer.append("a", [at(100, "a1\n")], 700);
  buffer.append("b", [at(10, "b1\n")], 0);
  buffer.append("b", [at(11, "b2, of the opening as well\n")], 18);
  expect(said(buffer)).toEqual(["worker/0 a1"]);
  buffer.live("b");
  buffer.append("b", [at(12, "b3\n")], 60);
  buffer.append("a", [at(110, "a2\n")], 800);
  expect(said(buffer)).toEqual(["worker/0 a1", "worker/1 b3", "worker/0 a2"]);
  buffer.prepend([{ log: "a", from: 0, to: 700, records: [at(5, "a0\n")] }]);
  expect(said(buffer).map((line) => line.split(" ")[1])).toEqual(["a0", "b1", "b2,", "a1", "b3", "a2"]);
});

test("what comes live is shown though its clock is behind, also once older lines were dropped", () => {
  const buffer = two();
  buffer.live("b");
  buffer.append("a", Array.from({ length: 30 }, (_, line) => at(1000 + line, `${line}\n`)), 0);
  buffer.trim(20, 5);
  buffer.append("b", [at(12, "late\n")], 0);
  expect(said(buffer).filter((line) => line.startsWith("worker/1"))).toEqual(["worker/1 late"]);
});

test("a line cut by the border is mended in its own task only", () => {
  const buffer = two();
  buffer.append("a", [at(10, "ner\n")], 100);
  buffer.append("b", [at(10, "other\n")], 0);
  buffer.prepend([{ log: "a", from: 0, to: 100, records: [at(9, "din")] }]);
  expect(said(buffer)).toEqual(["worker/0 dinner", "worker/1 other"]);
});

test("a line cut by the border is mended however much another task wrote before it went on", () => {
  const buffer = two();
  buffer.append("b", Array.from({ length: 20_000 }, () => at(10, "other\n")), 0);
  buffer.append("a", [at(10, "ner\n")], 100);
  buffer.prepend([{ log: "a", from: 0, to: 100, records: [at(9, "din")] }]);
  expect(said(buffer).filter((line) => line.startsWith("worker/0"))).toEqual(["worker/0 dinner"]);
});

test("the oldest lines are dropped beyond the limit, and nothing is asked for before them", () => {
  const buffer = two();
  buffer.append("a", Array.from({ length: 30 }, (_, line) => at(line, `${line}\n`)), 500);
  expect(buffer.trim(20, 20)).toBe(0);
  expect(buffer.trim(20, 5)).toBe(10);
  expect([buffer.lines.length, buffer.reach]).toEqual([20, {}]);
});

test("escape sequences of one task do not colour the lines of another", () => {
  const buffer = two();
  buffer.append("a", [at(1, "\x1b[31mred\n\x1b]0;title\x07\x1b[2J")], 0);
  buffer.append("b", [at(2, "plain\n")], 0);
  expect(buffer.lines.map((line) => line.spans[0]?.style.classes)).toEqual(["ansi-fg-1", ""]);
  expect(said(buffer)).toEqual(["worker/0 red", "worker/1 plain"]);
});

test("where no websocket gets through several logs are asked for, their tails shown, and read back", async () => {
  withoutSockets();
  const logs: Record<string, { records: LogRecord[]; complete: boolean; tail: LogRecord[] }> = {
    a: { records: Array.from({ length: 3000 }, (_, n) => at(n, `a${n}\n`)), complete: false, tail: [] },
    b: { records: [at(1, "b0\n")], complete: true, tail: [] },
  };
  const asked: string[] = [];
  vi.stubGlobal("fetch", (address: string) => {
    asked.push(address);
    const url = new URL(address, "http://portal");
    if (url.pathname === "/healthz") return Promise.resolve({ ok: true });
    const name = url.searchParams.get("task_attempt");
    const { records, complete, tail } = logs[name ?? "a"] as (typeof logs)[string];
    if (name === null) {
      const standing = Object.entries(logs).map(([log, one]) => ({
        task_attempt: log, name: `worker/${log}`, end: one.records.length * 100, complete: one.complete, lost_with: "",
        tail: one.tail,
      }));
      return Promise.resolve({ ok: true, json: () => Promise.resolve({ logs: standing }) });
    }
    const first = Math.floor(Number(url.searchParams.get("offset")) / 100);
    const some = records.slice(first, first + Math.max(1, Math.floor(Number(url.searchParams.get("limit")) / 100)));
    const next = first + some.length;
    const answer = { offset: first * 100, next_offset: next * 100, records: some, complete, tail: next < records.length ? [] : tail };
    return Promise.resolve({ ok: true, json: () => Promise.resolve(answer) });
  });
  const buffer = new MergedBuffer();
  const states: string[] = [];
  const feed = new MergedFeed("/ws/jobs/1/logs", "/logs/all?format=list", "/logs?task_attempt=", {
    tasks: (tasks) => tasks.forEach(({ log, name }) => buffer.add(log, name)),
    records: (log, records, from) => buffer.append(log, records, from),
    tail: (log, records) => buffer.tail(log, records),
    earlier: (parts) => void buffer.prepend(parts),
    live: (log) => buffer.live(log),
    state: (state) => states.push(state),
    lost: () => undefined,
  });
  await vi.advanceTimersByTimeAsync(2_000);
  expect(states.at(-1)).toBe("blocked");
  expect(buffer.reach).toEqual({});
  expect(said(buffer)).toHaveLength(3001);

  const one = logs["a"] as (typeof logs)[string];
  one.records.push(at(5000, "a more\n"));
  one.tail = [at(6000, "\r 10%")];
  await vi.advanceTimersByTimeAsync(3_000);
  expect(said(buffer).slice(-3)).toEqual(["worker/a a2999", "worker/a a more", "worker/a  10%"]);
  const before = asked.length;
  await vi.advanceTimersByTimeAsync(3_000);
  expect(asked.slice(before)).toEqual(["/logs/all?format=list"]);
  expect(said(buffer)).toHaveLength(3003);

  one.records.push(at(7000, "100%\n"));
  one.tail = [];
  one.complete = true;
  logs["c"] = { records: Array.from({ length: 20_000 }, (_, n) => at(n / 10, `c${n}\n`)), complete: true, tail: [] };
  await vi.advanceTimersByTimeAsync(6_000);
  expect(said(buffer).at(-1)).toBe("worker/a 100%");
  expect(states.at(-1)).toBe("ended");
  expect(buffer.reach["c"]).toBeGreaterThan(1_000_000);
  while (Object.keys(buffer.reach).length > 0) {
    feed.lookBack(buffer.reach);
    await vi.advanceTimersByTimeAsync(100);
  }
  expect(said(buffer).filter((line) => line.startsWith("worker/c"))).toEqual(
    Array.from({ length: 20_000 }, (_, n) => `worker/c c${n}`),
  );
  expect(said(buffer)).toHaveLength(3001 + 2 + 20_000);
  feed.close();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});
