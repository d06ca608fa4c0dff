/** `data-code`: uploading a folder of code. Its code is loaded where there is one. */
export async function code(element: HTMLElement): Promise<void> {
  const { CodePage } = await import("../code/page.ts");
  new CodePage(element);
}
