import { expect, test, vi } from "vitest";

import type { Later } from "../src/logs/earlier.ts";
import { Feed, judge, type Message } from "../src/logs/feed.ts";
import { withoutSockets } from "./sockets.ts";

const records = (from: number, to: number): Message => ({ type: "records", from, to, records: [] });

test.each<[string, number | undefined, Message, string]>([
  ["the records that come next are taken", 100, records(100, 200), "take"],
  ["the first records are taken wherever the server begins", undefined, records(5000, 6000), "take"],
  ["records that were seen are dropped", 200, records(100, 200), "drop"],
  ["records after a hole are asked for again from the hole", 100, records(150, 200), "seek"],
  ["records that overlap what was seen are asked for again from there", 150, records(100, 200), "seek"],
  ["a notice of skipping ahead makes it ask for what was skipped", 100, { type: "skipped", offset: 900 }, "seek"],
  ["a notice of skipping at the offset read changes nothing", 900, { type: "skipped", offset: 900 }, "drop"],
  ["the end ends it", 900, { type: "end", offset: 900, state: "terminated" }, "end"],
  ["an end beyond what was read makes it read on", 800, { type: "end", offset: 900, state: "terminated" }, "seek"],
  ["an empty log may end at once", undefined, { type: "end", offset: 0, state: "terminated" }, "end"],
  ["what has no end yet moves nothing", 900, { type: "tail", records: [] }, "tail"],
  ["a log whose server came back is open again", 900, { type: "open", offset: 900 }, "open"],
])("%s", (_, next, message, expected) => expect(judge(next, message)).toBe(expected));

test("where no websocket gets through a log is asked for until it has ended", async () => {
  withoutSockets();
  vi.stubGlobal("fetch", () => Promise.resolve({ ok: true }));
  const told: unknown[] = [];
  const parts: Later[] = [
    { records: [[1, 1, "one\n"]], tail: [], from: 0, to: 17, complete: false, lost: "" },
    { records: [], tail: [[2, 1, "\r 10%"]], from: 17, to: 17, complete: false, lost: "" },
    { records: [[2, 1, "two\n"]], tail: [], from: 17, to: 34, complete: true, lost: "" },
    { records: [], tail: [], from: 34, to: 34, complete: true, lost: "" },
  ];
  new Feed("/ws/logs/x", 0, {
    records: (records, from, to) => told.push([from, to, records[0]?.[2]]),
    tail: ([record]) => told.push(`tail${record?.[2] ?? ""}`),
    state: (state) => told.push(state),
    lost: () => undefined,
  }, (from) => {
    told.push(from);
    return Promise.resolve(parts.shift() as Later);
  });
  await vi.advanceTimersByTimeAsync(10_000);
  expect(told.slice(told.indexOf("blocked"))).toEqual([
    "blocked", 0, [0, 17, "one\n"], "tail", 17, "tail\r 10%", 17, [17, 34, "two\n"], "tail", 34, "ended", "tail",
  ]);
  vi.useRealTimers();
  vi.unstubAllGlobals();
});
