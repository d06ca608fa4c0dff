import { expect, test } from "vitest";

import { mayGive } from "../src/job_file/classes.ts";

test.each([
  ["test oppo", "test", true],
  ["test oppo", "crit", false],
  ["", "oppo", false],
  [undefined, "crit", true],
])("of the classes %s one may give %s: %s", (classes, name, may) => expect(mayGive(classes, name)).toBe(may));
