/** The page's language, in the way in which the reader's browser writes it where it knows several (en-GB for en). */
const root = globalThis.document?.documentElement;
const page = root?.lang.toLowerCase() ?? "";

export const language: string | undefined =
  globalThis.navigator?.languages?.find((one) => page && one.toLowerCase().startsWith(page.slice(0, 2))) ??
  (page || undefined);

/** Days, hours, minutes and seconds, as the page writes them. */
export const units: readonly string[] = (root?.dataset["units"] ?? "d h min s").split(" ");
