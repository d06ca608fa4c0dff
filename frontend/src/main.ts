import "./css/main.css";
import "htmx.org";

import { bindAll, register } from "./behaviour.ts";
import { themeToggle } from "./behaviours/theme.ts";

register("theme-toggle", themeToggle);

bindAll(document);
document.addEventListener("htmx:after:swap", () => bindAll(document));
