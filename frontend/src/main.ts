import "./css/main.css";

import { bindAll, register } from "./behaviour.ts";
import { chart } from "./behaviours/chart.ts";
import { charts, refreshes } from "./behaviours/charts.ts";
import { code } from "./behaviours/code.ts";
import { editor } from "./behaviours/editor.ts";
import { confirms, importing } from "./behaviours/forms.ts";
import { log } from "./behaviours/log.ts";
import { clusterMap } from "./behaviours/map.ts";
import { autoSubmit, closes, copy, menu, opens } from "./behaviours/small.ts";
import { tasks } from "./behaviours/tasks.ts";
import { themeToggle } from "./behaviours/theme.ts";
import { terminal } from "./behaviours/terminal.ts";
import { keepTimes } from "./behaviours/times.ts";
import { live } from "./live.ts";

register("theme-toggle", themeToggle);
register("menu", menu);
register("copy", copy);
register("auto-submit", autoSubmit);
register("opens", opens);
register("closes", closes);
register("confirm", confirms);
register("import", importing);
register("live", live);
register("log", log);
register("tasks", tasks);
register("chart", chart);
register("charts", charts);
register("refresh", refreshes);
register("terminal", terminal);
register("job-check", editor);
register("cluster-map", clusterMap);
register("code", code);

bindAll(document);
keepTimes();
document.addEventListener("htmx:after:swap", () => bindAll(document));
