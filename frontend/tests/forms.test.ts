import { describe, expect, it } from "vitest";

import { share } from "../src/behaviours/forms.ts";

describe("how far a long request is", () => {
  it("is a part of the whole", () => {
    expect(share({ done: 5, total: 20 })).toBe(0.25);
    expect(share({ done: 21, total: 20 })).toBe(1);
  });

  it("is not known while nothing was told", () => {
    expect(share({})).toBeUndefined();
    expect(share(null)).toBeUndefined();
    expect(share({ done: 0, total: 0 })).toBeUndefined();
  });
});
