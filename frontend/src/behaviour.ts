/** One behaviour per small script, bound to an element by its `data-` attribute. */
export type Behaviour = (element: HTMLElement) => void | Promise<void>;

const registered: [string, Behaviour][] = [];
const bound = new WeakMap<Element, Set<string>>();

/** Binds `behaviour` to each element that matches `[data-<name>]`, once, now and after each swap of a fragment. */
export function register(name: string, behaviour: Behaviour): void {
  registered.push([name, behaviour]);
}

export function bindAll(root: ParentNode): void {
  for (const [name, behaviour] of registered) {
    for (const element of root.querySelectorAll<HTMLElement>(`[data-${name}]`)) {
      const names = bound.get(element) ?? new Set<string>();
      if (names.has(name)) continue;
      bound.set(element, names.add(name));
      void behaviour(element);
    }
  }
}
