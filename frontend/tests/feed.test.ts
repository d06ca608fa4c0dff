import { expect, test } from "vitest";

import { judge, type Message } from "../src/logs/feed.ts";

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
