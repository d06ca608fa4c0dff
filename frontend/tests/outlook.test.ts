import { describe, expect, test } from "vitest";

import { momentWords } from "../src/behaviours/times.ts";
import { outlookWords, type Sentences } from "../src/job_file/outlook.ts";

const say: Sentences = {
  now: "It would start now on {nodes}.",
  wait: "It would wait: {message}.",
  place: "Place {place}.",
  when: "Likely start {p50}, at the latest {p90}.",
};

describe("what would become of a job", () => {
  test("it starts now", () => {
    const outlook = { nodes: ["gpu01", "gpu03"], waiting: null, start: { p50: "2026-05-04T10:00:00Z", p90: "2026-05-04T10:00:00Z" }, no_start: "" };
    expect(outlookWords(outlook, say)).toBe("It would start now on gpu01, gpu03.");
  });

  test("it waits, and when it starts is known", () => {
    const [p50, p90] = ["2026-05-04T10:00:00Z", "2026-05-04T12:30:00Z"];
    const outlook = { nodes: [], waiting: { message: "team a holds 8 of 8 {place}", place: 3 }, start: { p50, p90 }, no_start: "" };
    const when = `Likely start ${momentWords(new Date(p50))}, at the latest ${momentWords(new Date(p90))}.`;
    expect(outlookWords(outlook, say)).toBe(`It would wait: team a holds 8 of 8 {place}. Place 3. ${when}`);
  });

  test("it waits, and nobody knows for how long", () => {
    const outlook = { nodes: [], waiting: { message: "it is paused", place: null }, start: null, no_start: "No estimate: alice/train#1 has no time limit." };
    expect(outlookWords(outlook, say)).toBe("It would wait: it is paused. No estimate: alice/train#1 has no time limit.");
  });
});
