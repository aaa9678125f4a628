// The console: who the user is, which page the address names, and the stream of the crawl that is shown.

import { listen, logOut, may, of, session, user, whenLoginIsNeeded } from "./api.js";
import { el, notice, show } from "./dom.js";
import { CrawlsView, NodesView, crawls } from "./frontier.js";
import { LoginView } from "./login.js";
import { Banner, Overview } from "./overview.js";
import { EventsPage, FailuresPage, FilesPage, FindPage, QueuesPage, SeedsPage, SettingsPage } from "./parts.js";

const AGAIN_MS = 3000, MOST_EVENTS = 1000;
const main = document.getElementById("main");
const search = document.getElementById("search");
const query = document.getElementById("query");

const PARTS = {
  overview: ["Overview", (crawl) => new Overview(crawl)],
  seeds: ["Seeds", (crawl) => new SeedsPage(crawl)],
  failures: ["Failures", (crawl) => new FailuresPage(crawl)],
  queues: ["Queues", (crawl) => new QueuesPage(crawl)],
  events: ["Events", () => new EventsPage()],
  settings: ["Settings", (crawl) => new SettingsPage(crawl)],
  files: ["Files", (crawl) => new FilesPage(crawl)],
};

// A crawl, with its stream: it stays while the user goes from one part to another.
class CrawlView {
  constructor(crawl) {
    this.crawl = crawl;
    this.banner = new Banner(crawl);
    this.events = [];
    this.look = null;
    this.lastCourse = null;
    this.part = null;
    this.tabs = el("nav.tabs", { "aria-label": `Parts of ${crawl}` }, Object.entries(PARTS).map(([name, [title]]) =>
      el("a", { href: `#/crawls/${encodeURIComponent(crawl)}/${name}`, "data-part": name }, title)));
    this.place = el("div");
    // Nothing is known of the crawl before the first look; then its parts would tell of no problem.
    this.known = el("div", { hidden: true }, this.tabs, this.place);
    this.element = el("div", {}, this.banner.element, this.known);
    this.stream = listen(of(crawl, "live"), {
      look: (look) => this.update(look),
      course: (course) => { this.lastCourse = course; this.part?.course?.(course); },
      told: (events) => this.tell(events),
      happened: (events) => this.tell(events),
      away: ({ error }) => this.banner.alarm(error),
      refused: ({ error }) => this.banner.alarm(error),
    }, (text) => { if (text) this.banner.alarm(`${text[0].toUpperCase()}${text.slice(1)}; trying again.`); });
  }

  open(name, argument) {
    const part = name === "find" ? new FindPage(this.crawl, argument) : PARTS[name][1](this.crawl);
    this.part?.close?.();
    this.part = part;
    this.place.replaceChildren(part.element);
    for (const tab of this.tabs.children) {
      if (tab.dataset.part === name) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
    if (this.look) part.update?.(this.look);
    if (this.lastCourse) part.course?.(this.lastCourse);
    part.told?.(this.events);
  }

  update(look) {
    this.look = look;
    show(this.known, true);
    this.banner.update(look);
    this.part?.update?.(look);
  }

  tell(events) {
    const known = this.events.length ? this.events[this.events.length - 1].sequence : 0;
    const fresh = events.filter((each) => each.sequence > known);
    if (!fresh.length) return;
    this.events = [...this.events, ...fresh].slice(-MOST_EVENTS);
    this.part?.told?.(this.events);
  }

  close() {
    this.stream.close();
    this.part?.close?.();
  }
}

let view = null;

function put(next) {
  view?.close?.();
  view = next;
  main.replaceChildren(next.element);
  next.focus?.();
}

// A part of the address as it was before it was encoded; as it is, if somebody has mistyped it.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function route() {
  if (user.login) return;
  const [, place, name, part = "overview", argument = ""] = location.hash.split("/").map(decoded);
  const ofCrawl = place === "crawls" && name && (part in PARTS || part === "find");
  show(search, Boolean(ofCrawl));
  for (const link of document.getElementById("places").children) {
    const here = ofCrawl ? false : link.dataset.place === (place || "crawls");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (ofCrawl) {
    if (!(view instanceof CrawlView && view.crawl === name)) put(new CrawlView(name));
    view.open(part, argument);
    if (part !== "find") query.value = "";
  } else if (place === "nodes") {
    put(new NodesView());
  } else {
    put(new CrawlsView());
  }
}

function places() {
  const themes = { auto: "System colours", light: "Light", dark: "Dark" };
  const theme = el("select", { "aria-label": "Colours", onchange: () => setTheme(theme.value) },
    Object.entries(themes).map(([value, text]) => el("option", { value }, text)));
  theme.value = localStorage.getItem("theme") || "auto";
  document.getElementById("places").replaceChildren(
    el("a", { href: "#/crawls", "data-place": "crawls" }, "Crawls"),
    ...(may("GetFrontier") && !user.crawls.length ? [el("a", { href: "#/nodes", "data-place": "nodes" }, "Nodes")] : []));
  document.getElementById("user").replaceChildren(theme, ...(user.caller
    ? [el("span.caller", { title: user.roles.join(", ") }, `${user.caller} (${user.roles.join(", ")})`),
      el("button", { type: "button", onclick: async () => {
        try {
          await logOut();
        } catch (problem) {
          notice(problem.message, true);
        }
        start();
      } }, "Log out")] : []));
}

function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  localStorage.setItem("theme", name);
}

function needLogin(problem) {
  if (view instanceof LoginView) return;
  user.login = true;
  show(search, false);
  document.getElementById("places").replaceChildren();
  put(new LoginView(problem, start));
}

async function start() {
  try {
    await session();
  } catch (problem) {
    main.replaceChildren(el("p.problem", { role: "alert" }, `${problem.message}. Trying again …`));
    setTimeout(start, AGAIN_MS);
    return;
  }
  places();
  if (user.login) {
    needLogin(user.problem || "");
    return;
  }
  const named = location.hash.length > 2;
  if (!named) {
    const known = await crawls().catch(() => []);
    if (known.length === 1) {
      location.replace(`#/crawls/${encodeURIComponent(known[0].crawl)}/overview`);
      return;
    }
  }
  route();
}

setTheme(localStorage.getItem("theme") || "auto");
whenLoginIsNeeded(needLogin);
addEventListener("hashchange", route);
search.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = query.value.trim();
  if (text && view instanceof CrawlView) {
    location.hash = `#/crawls/${encodeURIComponent(view.crawl)}/find/${encodeURIComponent(text)}`;
  }
});
addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName || "");
  if (event.key === "/" && !typing && !search.hidden && !document.querySelector("dialog[open]")) {
    event.preventDefault();
    query.focus();
  }
});
start();
