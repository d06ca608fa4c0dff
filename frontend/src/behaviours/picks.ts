/** `data-picks="id"` on a form: the rows chosen in that part stay chosen when it is fetched anew; how many they are. */
export function picks(element: HTMLElement): void {
  const chosen = new Set<string>();
  const part = (): HTMLElement | null => document.getElementById(element.dataset["picks"] as string);
  const boxes = (): HTMLInputElement[] => [
    ...(part()?.querySelectorAll<HTMLInputElement>('input[type="checkbox"][name="job"]') ?? []),
  ];
  const all = element.querySelector<HTMLInputElement>("[data-picks-all]");
  const count = element.querySelector<HTMLElement>("[data-picks-count]");

  const show = (): void => {
    const there = boxes();
    for (const box of there) box.checked = chosen.has(box.value);
    const number = there.filter((box) => box.checked).length;
    if (count) count.textContent = String(number);
    if (all) {
      all.checked = number > 0 && number === there.length;
      all.indeterminate = number > 0 && number < there.length;
    }
  };
  const note = (box: HTMLInputElement): void => {
    if (box.checked) chosen.add(box.value);
    else chosen.delete(box.value);
  };

  document.addEventListener("change", (event) => {
    const box = event.target as HTMLInputElement;
    if (box === all) boxes().forEach((one) => { one.checked = box.checked; note(one); });
    else if (box.name === "job" && part()?.contains(box)) note(box);
    else return;
    show();
  });
  document.addEventListener("htmx:after:swap", show);
  boxes().filter((box) => box.checked).forEach(note);
  show();
}
