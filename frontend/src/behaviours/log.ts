/** `data-log`: the live log of a task attempt; `data-log-merged` beside it: of several. Their code is loaded where
 * there is one. */
export async function log(root: HTMLElement): Promise<void> {
  if ("logMerged" in root.dataset) {
    const { MergedViewer } = await import("../logs/merged.ts");
    new MergedViewer(root);
    return;
  }
  const { LogViewer } = await import("../logs/viewer.ts");
  new LogViewer(root);
}
