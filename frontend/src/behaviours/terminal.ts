/** `data-terminal`: a shell in a running task. Its code is loaded where there is one. */
export async function terminal(root: HTMLElement): Promise<void> {
  const { JobTerminal } = await import("../terminal/terminal.ts");
  new JobTerminal(root);
}
