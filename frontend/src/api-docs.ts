/** The page to read the REST API in and to try it: Swagger UI, with what it needs to be read by everybody. */
import "./css/api-docs.css";

type Element = unknown;
type Component = (props: Record<string, unknown>) => Element;
interface System {
  React: { createElement(kind: string | Component, props: object | null, ...children: unknown[]): Element };
}
type Wrapper = (original: Component, system: System) => Component;
interface Asked {
  method?: string;
  headers: Record<string, string>;
}

declare function SwaggerUIBundle(options: Record<string, unknown>): void;

/** A link within the button that opens an operation could not be reached; the button alone leads to it as well. */
const noLink: Wrapper = (_original, { React }) => ({ text }) => React.createElement("span", null, text);

/** Long text scrolls by the keyboard as well. */
const scrolled: Wrapper = (original, { React }) => (props) =>
  React.createElement("div", { className: "api-text", tabIndex: 0 }, React.createElement(original, props));

const labelled: Wrapper = (original, { React }) => (props) =>
  React.createElement(original, { "aria-label": "Request body", ...props });

const named = (name: string): Wrapper => (original, { React }) => (props) =>
  React.createElement("label", { "aria-label": name }, React.createElement(original, props));

const WRAPPED: Record<string, Wrapper> = {
  DeepLink: noLink,
  SyntaxHighlighter: scrolled,
  ExamplesSelect: named("Example"),
  Select: named("Value"),
  TextArea: labelled,
};

function start(place: HTMLElement): void {
  SwaggerUIBundle({
    domNode: place,
    url: place.dataset["document"],
    deepLinking: true,
    docExpansion: "none",
    filter: true,
    syntaxHighlight: { theme: "tomorrow-night" },
    plugins: [{ wrapComponents: WRAPPED }],
    requestInterceptor: (asked: Asked) => {
      if (asked.method && asked.method !== "GET") asked.headers["X-CSRFToken"] = place.dataset["csrf"] ?? "";
      return asked;
    },
  });
}

/** Swagger UI has dark colours of its own, below a class; what is light or dark here is an attribute. */
function followTheme(root: HTMLElement): void {
  const follow = (): void => {
    root.classList.toggle("dark-mode", root.dataset["bsTheme"] === "dark");
  };
  follow();
  new MutationObserver(follow).observe(root, { attributeFilter: ["data-bs-theme"] });
}

followTheme(document.documentElement);
const place = document.querySelector<HTMLElement>("#swagger-ui");
if (place) start(place);
