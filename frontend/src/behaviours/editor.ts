/** `data-job-check` on the submit form: the YAML editor. Its code is loaded where there is one. */
export async function editor(element: HTMLElement): Promise<void> {
  const { SubmitPage } = await import("../job_file/submit.ts");
  new SubmitPage(element as HTMLFormElement);
}
