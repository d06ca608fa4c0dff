import { expect, test } from "vitest";

import { zoomedTo } from "../src/charts/zoom.ts";

test("what is chosen by dragging stands in the address, in whole seconds, in place of what stood there", () => {
  expect(zoomedTo("/jobs/1/charts?task=a&last=900", [10.6, 20.2])).toBe("/jobs/1/charts?task=a&from=10&to=21");
  expect(zoomedTo("/jobs/1/charts?from=1&to=2", null)).toBe("/jobs/1/charts");
});
