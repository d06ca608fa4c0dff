/** `data-log`: the live log of a task attempt. Its code is loaded where there is one. */
export async function log(root: HTMLElement): Promise<void> {
  const { LogViewer } = await import("../logs/viewer.ts");
  new LogViewer(root);
}
