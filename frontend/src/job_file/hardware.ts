/** What the chosen virtual cluster leaves unused of each SKU, and the share of a server that belongs to a number of GPUs. */

import { fill } from "./outlook.ts";

/** `A100:4 H100:2` by SKU. */
export function unusedOf(text: string): Map<string, string> {
  return new Map(text.split(" ").flatMap((part) => {
    const cut = part.lastIndexOf(":");
    return cut > 0 ? [[part.slice(0, cut), part.slice(cut + 1)] as [string, string]] : [];
  }));
}

/** Writes beside each SKU what of it the chosen virtual cluster leaves unused, and shows only what it was given. */
export function showUnused(form: HTMLElement): void {
  const vc = form.querySelector<HTMLSelectElement>("[data-job-field=vc]");
  const chosen = vc?.selectedOptions[0];
  if (!vc) return;
  const unused = unusedOf(chosen?.dataset["unused"] ?? "");
  for (const option of form.querySelectorAll<HTMLOptionElement>("[data-job-field=sku] option[data-cpu]")) {
    const count = unused.get(option.value);
    const words = fill(form.dataset["wordUnused"] ?? "", { sku: option.value, count: count ?? "" });
    option.text = count === undefined ? option.value : words;
  }
  for (const element of form.querySelectorAll<HTMLElement>("[data-of-vc]")) {
    element.hidden = !(element.dataset["ofVc"] ?? "").split(" ").includes(vc.value);
  }
}

/** Offers the CPU and memory that go with the card's number of GPUs, where they are not what is written. */
export function offerShare(form: HTMLElement, card: HTMLElement): void {
  const offer = card.querySelector<HTMLElement>("[data-role-share]");
  const value = (field: string): string => card.querySelector<HTMLInputElement>(`[data-job-field=${field}]`)?.value ?? "";
  const gpus = Number(value("gpu"));
  const sku = skuOf(form, card);
  if (!offer || !sku || !(gpus > 0)) {
    if (offer) offer.hidden = true;
    return;
  }
  const cpu = String(Math.max(1, Math.floor((Number(sku.dataset["cpu"]) * gpus) / 1000)));
  const memory = String(Number(sku.dataset["memory"]) * gpus);
  offer.hidden = cpu === value("cpu") && memory === value("memoryMB");
  Object.assign(offer.dataset, { cpu, memory });
  const words = form.dataset[cpu === "1" ? "wordShareOne" : "wordShare"] ?? "";
  offer.textContent = fill(words, { cpu, memory, gpus: String(gpus), sku: sku.value });
}

/** The chosen SKU; without one the first that the virtual cluster owns. */
function skuOf(form: HTMLElement, card: HTMLElement): HTMLOptionElement | undefined {
  const select = card.querySelector<HTMLSelectElement>("[data-job-field=sku]");
  const options = [...(select?.options ?? [])].filter((option) => option.dataset["cpu"] !== undefined);
  const vc = form.querySelector<HTMLSelectElement>("[data-job-field=vc]")?.selectedOptions[0];
  const owned = unusedOf(vc?.dataset["unused"] ?? "");
  return options.find((option) => option.value === select?.value) ?? options.find((option) => owned.has(option.value));
}
