import { describe, expect, test } from "vitest";

import { Picks } from "../src/behaviours/picks.ts";

describe("rows that are chosen", () => {
  test("stay chosen when they are fetched anew", () => {
    const picks = new Picks();
    picks.note("7", true);
    expect(picks.shown(["9", "7"])).toEqual({ chosen: [false, true], count: 1, all: "some" });
    expect(picks.shown(["7"])).toEqual({ chosen: [true], count: 1, all: "all" });
  });

  test("are forgotten when they are chosen no more", () => {
    const picks = new Picks();
    picks.note("7", true);
    picks.note("7", false);
    expect(picks.shown(["7"])).toEqual({ chosen: [false], count: 0, all: "none" });
  });

  test("count only where they are in sight, and come back with their row", () => {
    const picks = new Picks();
    picks.note("7", true);
    expect(picks.shown(["8"])).toEqual({ chosen: [false], count: 0, all: "none" });
    expect(picks.shown(["8", "7"]).count).toBe(1);
  });

  test("of no row at all are none", () => expect(new Picks().shown([])).toEqual({ chosen: [], count: 0, all: "none" }));
});
