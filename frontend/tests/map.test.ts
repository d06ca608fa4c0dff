import { describe, expect, test } from "vitest";

import { addressOf, choiceOf, fits } from "../src/cluster/choice.ts";
import { type Dots, type Gpu, type MapNode, nodesOf } from "../src/cluster/data.ts";
import { gapBefore } from "../src/cluster/draw.ts";
import { lettersOf, Looks, MODES } from "../src/cluster/looks.ts";

const dots: Dots = {
  vcs: ["vision", "nlp"],
  sections: ["rack:a"],
  shapes: [[["A100-quad", 4], ["A100-pair", 2]]],
  holders: [
    ["vision", "alice", "guaranteed", 12, "alice/train#1 (worker/0)"],
    ["nlp", "bob", "borrowed", 0, ""],
  ],
  nodes: [
    [
      "gpu01", "open", "", 0, 0, "A100",
      [[0, "held", 0, 97, ""], [1, "lent", 1, 2, ""], [2, "free", -1, 0, ""], [3, "sick", 0, -1, "fell off the bus"]],
    ],
    ["gpu02", "draining", "new fans", 0, 0, "A100", [[0, "out", -1, 0, ""]]],
    ["gpu03", "lost", "", 0, 0, "A100", [[0, "sick", -1, -1, ""]]],
  ],
};
const nodes = nodesOf(dots);
const node = (place: number): MapNode => nodes[place] as MapNode;
const gpu = (at: number, place: number): Gpu => node(at).gpus[place] as Gpu;

describe("what a GPU looks like", () => {
  test.each([
    ["vc", ["vc:vision V", "vc:nlp N", "free ", "vc:vision V", "out ", "sick ×"]],
    ["right", ["held Q", "lent L", "free ", "sick ×", "out ", "sick ×"]],
    ["use", ["use:4 97", "use:0 2", "free ", "sick ×", "out ", "sick ×"]],
    ["health", ["well ✓", "well ✓", "well ✓", "sick ×", "draining ↓", "lost ?"]],
  ] as const)("coloured by %s", (mode, expected) => {
    const looks = new Looks(mode, dots.vcs);
    const found = nodes.flatMap((one) => one.gpus.map((each) => looks.of(each, one)));
    expect(found.map((look) => `${look.key} ${look.letter}`)).toEqual(expected);
  });

  test("a team's GPU that is sick or on loan is also found among the sick and the lent", () => {
    const looks = new Looks("vc", dots.vcs);
    expect(looks.of(gpu(0, 3), node(0))).toMatchObject({ key: "vc:vision", also: "sick" });
    expect(looks.of(gpu(0, 1), node(0))).toMatchObject({ key: "vc:nlp", also: "lent" });
  });

  test("among teams the legend shows a loan as the map does: by the corner, of no team, without a letter", () => {
    expect(new Looks("vc", dots.vcs).named("lent")).toEqual({ key: "lent", style: "vc-any is-lent", letter: "" });
    expect(new Looks("right", dots.vcs).named("lent").letter).toBe("L");
  });

  test("the legend shows what the map shows", () => {
    for (const mode of MODES) {
      const looks = new Looks(mode, dots.vcs);
      for (const one of nodes) for (const each of one.gpus) {
        const look = looks.of(each, one);
        expect(looks.named(look.key).key).toBe(look.key);
      }
    }
  });
});

describe("letters of teams", () => {
  test.each([
    [["vision", "nlp"], ["V", "N"]],
    [["vision", "video", "voice"], ["I", "Id", "O"]],
    [["team-01", "team-02", "team-10"], ["1", "2", "10"]],
    [["a", "a-b"], ["V0", "B"]],
    [["solo"], ["S"]],
    [[], []],
  ])("%j", (names, letters) => expect([...lettersOf(names).values()]).toEqual(letters));

  test("no two are alike, however many there are", () => {
    const names = Array.from({ length: 80 }, (_, place) => `x${"abc".repeat(place)}`);
    expect(new Set(lettersOf(names).values()).size).toBe(80);
  });
});

describe("what somebody chose", () => {
  test("stands in the address and is read from it again", () => {
    const choice = { mode: "use", only: new Set(["use:0", "free"]), text: "alice train" } as const;
    const address = addressOf("/cluster", choice);
    expect(address).toBe("/cluster?by=use&only=use%3A0&only=free&q=alice+train");
    expect(choiceOf(address.slice("/cluster".length))).toEqual(choice);
  });

  test("is left out where it is the default, and what is unknown is the default", () => {
    expect(addressOf("/cluster", choiceOf("?by=nonsense"))).toBe("/cluster");
  });
});

describe("search", () => {
  test.each([
    ["", true], ["GPU01", true], ["alice train", true], ["vision", true], ["rack:a", true], ["a100", true],
    ["12", true], ["bob", false], ["alice bob", false],
  ])("%j", (text, found) => expect(fits(text, gpu(0, 0), node(0))).toBe(found));

  test("a job that one may not see is not found by its name", () =>
    expect(fits("train", gpu(0, 1), node(0))).toBe(false));
});

test("gaps show the cells inside a node: wide between large ones, narrow between small ones", () => {
  const gaps = (groups: [string, number][]): string => [...Array(8).keys()].map((it) => gapBefore(it, groups)).join("");
  expect(gaps([["quad", 4], ["pair", 2]])).toBe("00102010");
  expect(gaps([["pair", 2]])).toBe("00101010");
  expect(gaps([])).toBe("00000000");
});
