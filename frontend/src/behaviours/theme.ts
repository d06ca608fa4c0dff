/** `data-theme-toggle`: switches light and dark, and remembers it in this browser. */
export function themeToggle(button: HTMLElement): void {
  const root = document.documentElement;
  button.addEventListener("click", () => {
    const next = root.dataset["bsTheme"] === "dark" ? "light" : "dark";
    root.dataset["bsTheme"] = next;
    try {
      localStorage.setItem("berth.theme", next);
    } catch {
      // Not remembered, but switched.
    }
  });
}
