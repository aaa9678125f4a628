// The first page of a crawl: how it is, and all that one may want to see or do next.

import { inOrder, may, of, request, user } from "./api.js";
import { CrawlButtons, NodeButtons, QueueButtons, changeSetting, crawlHelp, queueHelp } from "./actions.js";
import { Chart } from "./chart.js";
import { Table, card, el, notice, say, sayLong, show } from "./dom.js";
import { bytes, clipped, count, counted, duration, moment, queueState, queueStates, rate, stateOf, until, word } from "./format.js";

const FAILURES_MS = 5000, MOST_EVENTS = 60, MOST_FAILURES = 8, HTTP_ERROR = 400;

export function uriLink(crawl, uri) {
  return `#/crawls/${encodeURIComponent(crawl)}/find/${encodeURIComponent(uri)}`;
}

// A cell that is a link to what the crawl knows about a URI or a host.
export const found = (crawl, subject, text = subject) => () => {
  const link = el("a", {});
  return {
    element: link,
    update(row) {
      link.href = uriLink(crawl, subject(row));
      sayLong(link, text(row));
    },
  };
};

// A queue by its host, which people know, and by its key.
const queueName = (crawl) => () => {
  const link = el("a", {}), key = el("div.why");
  return {
    element: el("div", {}, link, key),
    update(row) {
      link.href = uriLink(crawl, row.key);
      sayLong(link, row.host || row.key);
      sayLong(key, row.host ? row.key : "");
    },
  };
};

export function queueColumns(crawl, now, changed) {
  return [
    { title: "Queue", head: true, name: true, element: queueName(crawl) },
    { title: "State", cell: (row) => (row.paused ? "held" : queueState(row.state)) },
    { title: "Waits", long: true, cell: (row) => [row.wake && `${until(row.wake, now())}`, row.reason].filter(Boolean).join(": ") },
    { title: "Queued", number: true, cell: (row) => count(row.queued) },
    { title: "Fetched", number: true, cell: (row) => count(row.succeeded) },
    { title: "Failed", number: true, cell: (row) => count(row.failed) },
    { title: "", label: "Acts", element: () => new QueueButtons(crawl, changed) },
  ];
}

export function nodeColumns(changed) {
  return [
    { title: "Node", head: true, name: true, cell: (row) => row.node },
    { title: "Status", long: true, cell: (row) => [row.draining && row.presence === "PRESENT" ? "drains" : row.absence || "present", row.warning].filter(Boolean).join("; ") },
    { title: "Heartbeat", cell: (row) => `${duration(row.heartbeat_age_seconds)} ago` },
    { title: "Toes by step", long: true, cell: steps },
    { title: "Leases", number: true, cell: (row) => count(row.leased) },
    { title: "", label: "Acts", element: () => new NodeButtons(changed) },
  ];
}

function steps(node) {
  if (node.presence !== "PRESENT") return "none";
  const { ABOUT_TO_GET_URI: idle = 0, ...busy } = node.steps;
  const told = Object.entries(busy).sort((one, other) => other[1] - one[1]).map(([step, number]) => `${number} ${word(step)}`);
  if (idle) told.push(`${idle} idle`);
  const toes = told.length ? `${told.join(", ")} of ${node.toes}` : `${node.toes}`;
  const lost = [node.died && `${node.died} died`, node.left_behind && `${node.left_behind} left behind`].filter(Boolean);
  return [toes, ...lost].join("; ");
}

const whenPresent = (text) => (row) => row.present ? text(row) : "–";

// The shards of a frontier that has several.
export const shardColumns = [
  { title: "Shard", head: true, cell: (row) => `${row.shard}` },
  { title: "Status", cell: (row) => row.present ? "present" : "away" },
  { title: "Queued", number: true, cell: whenPresent((row) => count(row.queued)) },
  { title: "Leases", number: true, cell: whenPresent((row) => count(row.leased)) },
  { title: "Fetches", number: true, cell: whenPresent((row) => rate(row.rate)) },
  { title: "Cores", number: true, cell: whenPresent((row) => row.cores.toFixed(2)) },
  { title: "Memory", number: true, cell: whenPresent((row) => bytes(row.memory)) },
  { title: "Disk", number: true, cell: whenPresent((row) => bytes(row.disk)) },
];

export const eventColumns = [
  { title: "When", cell: (row) => moment(row.at) },
  { title: "What", long: true, cell: (row) => row.text },
];

// The banner on top of each page of a crawl: verdict, the setting that limits it, and the acts.
export class Banner {
  constructor(crawl) {
    this.crawl = crawl;
    this.setting = "";
    this.state = el("span.state");
    this.next = el("p.next", { hidden: true });
    this.text = el("p.verdict", { role: "status" }, "Looking at the crawl …");
    this.edit = el("button.small", { type: "button", hidden: true, onclick: () => this.change() });
    this.buttons = new CrawlButtons(crawl);
    this.element = el("section.banner", { "aria-label": "Verdict" },
      el("h1", {}, el("span", {}, crawl), " ", this.state), el("div.line", {}, this.text, this.edit), this.next, this.buttons.element, crawlHelp());
  }

  update(look) {
    const { held, torn_down: tornDown } = look;
    say(this.state, [stateOf(look.state), held && "held", tornDown && "torn down"].filter(Boolean).join(", "));
    sayLong(this.next, look.next);
    show(this.next, Boolean(look.next));
    this.element.dataset.tone = look.verdict.tone;
    sayLong(this.text, look.verdict.text);
    this.setting = look.verdict.setting;
    show(this.edit, Boolean(this.setting) && may("UpdateCrawl"));
    say(this.edit, `Change ${this.setting}`);
    this.buttons.update(look);
    document.title = `${look.crawl}: ${look.verdict.text.split(":")[0]} · Toehold`;
  }

  // The console or the frontier does not answer, or refuses.
  alarm(text) {
    if (!text) return;
    this.element.dataset.tone = "bad";
    say(this.text, text);
  }

  async change() {
    try {
      const { settings } = await request(of(this.crawl, "settings"));
      const about = settings.find((each) => each.name === this.setting);
      if (about) await changeSetting(this.crawl, about.name, about.value, about);
    } catch (problem) {
      notice(problem.message, true);
    }
  }
}

// A number, large, and a remark on it, small.
class Figure {
  constructor() {
    this.value = el("span.value");
    this.remark = el("span.remark");
    this.element = el("dd", {}, this.value, " ", this.remark);
  }

  say(value, remark = "") {
    say(this.value, value);
    say(this.remark, remark);
  }
}

export class Overview {
  constructor(crawl) {
    this.crawl = crawl;
    this.ask = inOrder(() => request(of(crawl, "failures")));
    this.now = "";
    const now = () => this.now, page = (part) => `#/crawls/${encodeURIComponent(crawl)}/${part}`;
    const more = (part, text) => el("p.more", {}, el("a", { href: page(part) }, text));
    this.numbers = el("dl.numbers");
    this.figures = {};
    for (const [key, title] of [["pages", "Pages"], ["rate", "Rate"], ["queued", "Queued"], ["failed", "Failed"],
      ["data", "Data"], ["elapsed", "Run time"], ["left", "Time left"]]) {
      this.figures[key] = new Figure();
      this.numbers.append(el("div", {}, el("dt", {}, title), this.figures[key].element));
    }
    this.chart = new Chart();
    this.problems = new Table("Problems", [
      { title: "When", cell: (row) => row.ago || "now" },
      { title: "Problem", long: true, cell: (row) => row.text },
    ], { empty: "No problem.", keyOf: (row) => `${row.ago && row.text}${row.text}` });
    this.seedText = el("p");
    this.seeds = new Table("Seeds in trouble", [
      { title: "Seed", head: true, long: true, element: found(crawl, (row) => row.uri) },
      { title: "Outcome", long: true, cell: (row) => row.outcome },
    ], { empty: "No seed is in trouble.", keyOf: (row) => row.uri });
    this.failures = new Table("Failures by host and reason", failureColumns(crawl), { empty: "No URI failed.", keyOf: failureKey });
    this.nodeText = el("p");
    this.nodes = new Table("Nodes", nodeColumns(), { empty: "No node.", keyOf: (row) => row.node });
    this.nodesHidden = el("p", { hidden: true }, "You may not see the nodes, as you are bound to some crawls.");
    this.shards = new Table("Shards", shardColumns, { keyOf: (row) => row.shard });
    this.shardsCard = wide(card("Shards", this.shards.element));
    this.queueText = el("p");
    this.slowest = new Table("Slowest queues", queueColumns(crawl, now), { empty: "No queue rests." });
    this.largest = new Table("Largest queues", queueColumns(crawl, now), { empty: "No queue has URIs." });
    this.jobs = new Table("Jobs", [
      { title: "Job", head: true, cell: (row) => `${row.job} ${row.kind}` },
      { title: "State", cell: (row) => word(row.state) },
      { title: "Rows", number: true, cell: (row) => `${count(row.done_count)} of ${row.total_count ? count(row.total_count) : "?"}` },
    ], { keyOf: (row) => row.job });
    this.jobsCard = card("Jobs", this.jobs.element);
    this.events = new Table("Events", eventColumns, { empty: "No event yet.", keyOf: (row) => row.sequence });
    this.changes = new Table("Changes of settings", changeColumns, { empty: "Nobody has changed a setting.", keyOf: (row) => row.sequence });
    this.files = el("p", {}, "…");
    this.statuses = el("p");
    this.acts = [];
    this.slowestPart = el("div", {}, el("h3", {}, "Slowest"), this.slowest.element);
    const queues = card("Queues", this.queueText, this.slowestPart,
      el("h3", {}, "Largest"), this.largest.element, queueHelp(), more("queues", "All queues"));
    wide(queues);
    this.element = el("div.cards", {},
      wide(card("Now", this.numbers)),
      el("div.column", {}, card("Course", this.chart.element)),
      el("div.column", {}, card("Problems", this.problems.element),
        card("Seeds", this.seedText, this.seeds.element, more("seeds", "All seeds"))),
      wide(card("Failures", this.statuses, this.failures.element, more("failures", "All failures"))),
      wide(card("Nodes", this.nodeText, this.nodes.element, this.nodesHidden, el("p.more", {}, el("a", { href: "#/nodes" }, "All nodes")))),
      this.shardsCard, queues, el("div.column", {}, this.jobsCard, card("Events", this.events.element, more("events", "More events"))),
      el("div.column", {}, card("Settings", this.changes.element, more("settings", "All settings")),
        card("Files", this.files)));
    this.timer = setInterval(() => this.loadFailures(), FAILURES_MS);
    this.loadFailures();
    this.loadFiles();
  }

  close() {
    clearInterval(this.timer);
  }

  update(look) {
    this.now = look.at;
    const { counts, rates } = look;
    const ended = look.state === "FINISHED", average = `on average ${rate(rates.average_pages)}`;
    const errors = look.statuses.filter((each) => each.code >= HTTP_ERROR).reduce((sum, each) => sum + each.uri_count, 0);
    const { pages, rate: speed, queued, failed, data, elapsed, left } = this.figures;
    pages.say(count(counts.succeeded), errors ? `${count(errors)} answered with an error` : "");
    // The frontier's rate is a smoothed one, which falls for some minutes after the end.
    if (ended) speed.say(rate(rates.average_pages), "on average");
    else speed.say(rate(rates.pages), `${bytes(Math.round(rates.bytes))}/s; ${average}`);
    queued.say(count(counts.queued), counts.leased ? `${count(counts.leased)} being fetched` : "");
    failed.say(count(counts.failed));
    data.say(bytes(counts.bytes));
    elapsed.say(duration(look.elapsed_seconds));
    left.say(...timeLeft(look.time_left));
    show(left.element.parentElement, !ended);
    this.chart.ended = ended;
    this.problems.update(look.problems);
    say(this.seedText, look.seeds.text);
    this.seeds.update(look.seeds.troubled);
    say(this.statuses, look.statuses.length
      ? `By fetch status: ${look.statuses.map((each) => `${each.text}: ${count(each.uri_count)}`).join("; ")}.` : "");
    show(this.nodesHidden, look.nodes === null);
    show(this.nodes.element, look.nodes !== null);
    say(this.nodeText, look.nodes ? look.nodes.text : "");
    this.nodes.update(look.nodes ? look.nodes.rows : []);
    show(this.shardsCard, look.shards.length > 0);
    this.shards.update(look.shards);
    say(this.queueText, queueStates(look.queue_counts));
    show(this.slowestPart, !ended);
    say(this.largest.none, counts.queued ? "The frontier does not know the largest ones yet; see all queues." : "No queue has URIs.");
    this.slowest.update(look.slowest);
    this.largest.update(look.largest);
    show(this.jobsCard, look.jobs.length > 0);
    this.jobs.update(look.jobs);
  }

  course(course) {
    this.chart.update(course);
  }

  told(events) {
    this.events.update(events.slice(-MOST_EVENTS).reverse());
    this.changes.update(events.filter((each) => ["update", "reopen"].includes(each.action)).reverse().slice(0, 10));
  }

  async loadFailures() {
    if (document.hidden) return;
    try {
      const answer = await this.ask();
      if (answer) this.failures.update(answer.groups.slice(0, MOST_FAILURES));
    } catch {
      // The banner tells that nothing answers; what is shown stays.
    }
  }

  async loadFiles() {
    if (!user.files) {
      say(this.files, "The files are on other machines: WARC files with the nodes, logs with the frontier.");
      return;
    }
    try {
      const { files } = await request(of(this.crawl, "files"));
      const sum = files.reduce((total, file) => total + file.size, 0);
      const kinds = [...new Set(files.map((file) => file.folder))].join(", ");
      this.files.replaceChildren(
        files.length ? el("a", { href: `#/crawls/${encodeURIComponent(this.crawl)}/files` },
          `${counted(files.length, "file")}, ${bytes(sum)}: ${kinds}`) : "No file yet.");
    } catch (problem) {
      say(this.files, problem.message);
    }
  }
}

function wide(element) {
  element.classList.add("wide");
  return element;
}

// "about 45 s to the page limit, which leaves 995 URLs": the time, and the rest of it.
function timeLeft(text) {
  const parts = /^((?:about )?[\d.]+(?: \w+)?(?: to [\d.]+)? (?:s|min|h|days))(?: left)? ?(.*)$/.exec(text);
  return parts ? [parts[1], parts[2]] : [text || "–", text ? "" : "not known yet"];
}

export const changeColumns = [
  { title: "When", cell: (row) => moment(row.at) },
  { title: "Who", cell: (row) => row.operator },
  { title: "What", long: true, cell: (row) => row.detail || row.action },
];

export const failureKey = (row) => `${row.host} ${row.fetch_status} ${row.why}`;

export function failureColumns(crawl) {
  return [
    { title: "Host", head: true, name: true, element: found(crawl, (row) => row.host) },
    { title: "Why", long: true, cell: (row) => row.why },
    { title: "URIs", number: true, cell: (row) => count(row.uri_count) },
    { title: "Examples", long: true, element: () => {
      const list = el("ul.plain");
      let shown = "";
      return { element: list, update(row) {
        if (shown === row.examples.join(" ")) return;
        shown = row.examples.join(" ");
        list.replaceChildren(...row.examples.map((uri) => el("li", {}, el("a", { href: uriLink(crawl, uri), title: uri }, clipped(uri)))));
      } };
    } },
  ];
}
