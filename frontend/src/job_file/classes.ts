/** Of the priority classes those that one may give a job in the chosen virtual cluster. */

import { fill } from "./outlook.ts";

/** `classes` as the page has them of a virtual cluster, such as `test oppo`; none: it is a stranger, the server judges. */
export function mayGive(classes: string | undefined, name: string): boolean {
  return classes === undefined || classes.split(" ").includes(name);
}

/** A class that one may not give stays in sight, with the reason beside it. */
export function showClasses(form: HTMLElement): void {
  const vc = form.querySelector<HTMLSelectElement>("[data-job-field=vc]");
  const classes = vc?.selectedOptions[0]?.dataset["classes"];
  for (const option of form.querySelectorAll<HTMLOptionElement>("[data-job-field=priority] option[data-word]")) {
    const word = option.dataset["word"] ?? "";
    option.disabled = !mayGive(classes, option.value);
    option.text = option.disabled ? fill(form.dataset["wordAbove"] ?? "", { name: word, vc: vc?.value ?? "" }) : word;
  }
}
