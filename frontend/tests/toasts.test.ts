import { expect, test } from "vitest";

import { goes } from "../src/toasts.ts";

test.each([
  ["toast-note is-success", true],
  ["toast-note is-info", true],
  ["toast-note is-warning", false],
  ["toast-note is-error", false],
])("whether a message goes by itself: %s", (style, away) => expect(goes(style)).toBe(away));
