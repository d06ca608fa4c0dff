import { describe, expect, test } from "vitest";

import { colourOf, dashOf, latest, numberWords, stackedUp, timeWords, type ChartLine } from "../src/charts/data.ts";

const line = (name: string, values: (number | null)[], colour?: string): ChartLine => ({
  name,
  values,
  ...(colour ? { colour } : {}),
});

describe("the numbers of a chart", () => {
  test.each([
    [null, "–"],
    [0, "0"],
    [1.234, "1.23"],
    [12.34, "12.3"],
    [1234.56, "1235"],
    [60, "60"],
    [-0.5, "-0.5"],
  ])("%s is written %s, as the server writes it", (value, words) => expect(numberWords(value)).toBe(words));

  test("the latest value is that of the last point that has one", () => {
    expect(latest(line("a", [1, 2, null]))).toBe(2);
    expect(latest(line("a", [null]))).toBeNull();
  });
});

describe("a stack", () => {
  const lines = [line("a", [1, 2]), line("b", [10, null]), line("c", [100, 100])];

  test("lies line upon line, and passes over what is not known", () => {
    expect(stackedUp(lines, new Set())).toEqual([[1, 2], [11, null], [111, 102]]);
  });

  test("closes up when a line of it is hidden", () => {
    expect(stackedUp(lines, new Set(["b"]))).toEqual([[1, 2], [null, null], [101, 102]]);
  });
});

describe("lines", () => {
  test("have colours of the row in turn, or the one they ask for", () => {
    expect([0, 7, 8].map((place) => colourOf(line("a", []), place))).toEqual([
      "--berth-series-1",
      "--berth-series-8",
      "--berth-series-1",
    ]);
    expect(colourOf(line("a", [], "running"), 3)).toBe("--berth-running");
  });

  test("of the same colour are told apart by their dashes", () => {
    expect(dashOf(0)).not.toEqual(dashOf(8));
    expect(dashOf(8)).not.toEqual(dashOf(16));
  });
});

test("an axis of time names the day where a new one begins", () => {
  const night = new Date(2026, 4, 3, 23, 30).getTime() / 1000;
  expect(timeWords([night, night + 1800, night + 3600], 1800, "en")).toEqual(["23:30", "May 4", "00:30"]);
  expect(timeWords([night], 10, "en")).toEqual(["23:30:00"]);
});
