// Runs before the page is painted, so that a dark page never flashes light. A classic script: no imports.
(() => {
  let chosen: string | null = null;
  try {
    chosen = localStorage.getItem("berth.theme");
  } catch {
    // Storage may be forbidden; the system's choice is good enough.
  }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const apply = (): void => {
    root.dataset["bsTheme"] = chosen ?? (dark.matches ? "dark" : "light");
  };
  apply();
  root.classList.add("js");
  dark.addEventListener("change", apply);
})();
