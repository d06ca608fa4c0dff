/** Which rows of a list are chosen, whether they are in sight or not. */
export class Picks {
  readonly #chosen = new Set<string>();

  note(value: string, chosen: boolean): void {
    if (chosen) this.#chosen.add(value);
    else this.#chosen.delete(value);
  }

  /** Of the rows in sight: which are chosen, how many, and whether all. */
  shown(values: readonly string[]): { chosen: boolean[]; count: number; all: "none" | "some" | "all" } {
    const chosen = values.map((value) => this.#chosen.has(value));
    const count = chosen.filter(Boolean).length;
    return { chosen, count, all: count === 0 ? "none" : count === values.length ? "all" : "some" };
  }
}

/** `data-picks="id"` on a form: the rows chosen in that part stay chosen when it is fetched anew; how many they are,
 * with those that the form itself brings along because their rows are on another page. */
export function picks(element: HTMLElement): void {
  const chosen = new Picks();
  const part = (): HTMLElement | null => document.getElementById(element.dataset["picks"] as string);
  const boxes = (): HTMLInputElement[] => [
    ...(part()?.querySelectorAll<HTMLInputElement>('input[type="checkbox"][name="job"]') ?? []),
  ];
  const alls = (): HTMLInputElement[] => [...document.querySelectorAll<HTMLInputElement>("[data-picks-all]")];
  const count = element.querySelector<HTMLElement>("[data-picks-count]");

  const show = (): void => {
    const there = boxes();
    const shown = chosen.shown(there.map((box) => box.value));
    there.forEach((box, place) => (box.checked = shown.chosen[place] === true));
    const all = shown.count + element.querySelectorAll('input[name="job"]:checked').length;
    if (count) count.textContent = String(all);
    element.classList.toggle("has-picks", all > 0);
    for (const box of alls()) {
      box.checked = shown.all === "all";
      box.indeterminate = shown.all === "some";
    }
  };
  const note = (box: HTMLInputElement): void => chosen.note(box.value, box.checked);

  document.addEventListener("change", (event) => {
    const box = event.target as HTMLInputElement;
    if (box.matches("[data-picks-all]")) boxes().forEach((one) => { one.checked = box.checked; note(one); });
    else if (box.name === "job" && part()?.contains(box)) note(box);
    else if (!element.contains(box)) return;
    show();
  });
  document.addEventListener("htmx:after:swap", show);
  boxes().filter((box) => box.checked).forEach(note);
  show();
}
