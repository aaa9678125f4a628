// Acts on a crawl, its queues and nodes: what each asks first, and which call it makes.

import { admin, may, of, request, rpc } from "./api.js";
import { ask, el, notice } from "./dom.js";
import { counted } from "./format.js";

const STATE = (target) => (crawl) => rpc("FrontierService/RequestState", { crawl, target_state: `TARGET_STATE_${target}` });

// By name: its label, the RPC that must be allowed, the call, and the question before it.
export const CRAWL_ACTIONS = {
  launch: { label: "Launch", rpc: "LaunchCrawl", call: (crawl) => admin("LaunchCrawl", { crawl }), primary: true },
  resume: { label: "Resume", rpc: "FrontierService/RequestState", call: STATE("RUN"), primary: true },
  pause: { label: "Pause", rpc: "FrontierService/RequestState", call: STATE("PAUSE") },
  stop: {
    label: "Stop", rpc: "FrontierService/RequestState", call: STATE("FINISH"), danger: true,
    question: (look) => `The crawl ends: ${counted(look.counts.leased, "URI")} being fetched are completed, ` +
      `${counted(look.counts.queued, "URI")} in its queues are left. It can be reopened later.`,
  },
  interrupt: {
    label: "Interrupt", rpc: "FrontierService/RequestState", call: STATE("FINISH"), danger: true,
    question: (look) => `The crawl is stopping. Interrupting breaks off ${counted(look.counts.leased, "fetch").replace(/fetchs$/, "fetches")} now; ` +
      "these URIs fail.",
  },
  reopen: { label: "Reopen", rpc: "ReopenCrawl", call: (crawl) => admin("ReopenCrawl", { crawl }) },
  teardown: {
    label: "Tear down", rpc: "TearDownCrawl", call: (crawl) => admin("TearDownCrawl", { crawl }),
    question: () => "The crawl ends, if it has not, and leaves the frontier's memory. It cannot run again; its logs and files stay.",
  },
};

// One act with its question, and a message of its end. True if it was done.
export async function act(name, question, action, call, danger = true) {
  if (question && !(await ask(name, question, action, [], danger))) return false;
  try {
    await call();
    notice(`${name}: accepted.`);
    return true;
  } catch (problem) {
    notice(`${name}: ${problem.message}`, true);
    return false;
  }
}

// The buttons of a crawl. They stay the same elements, so that the focus stays.
export class CrawlButtons {
  constructor(crawl) {
    this.look = null;
    this.buttons = Object.entries(CRAWL_ACTIONS).filter(([, each]) => may(each.rpc)).map(([name, each]) => {
      const kind = each.primary ? "button.primary" : each.danger ? "button.danger" : "button";
      const button = el(kind, { type: "button", hidden: true, onclick: () => this.press(crawl, each) }, each.label);
      return { name, button };
    });
    this.checkpoint = may("CreateCheckpoint")
      ? el("button", { type: "button", onclick: () => this.save() }, "Checkpoint") : null;
    this.element = el("div.buttons", { role: "group", "aria-label": "Acts on the crawl" },
      this.buttons.map(({ button }) => button), this.checkpoint);
  }

  update(look) {
    this.look = look;
    for (const { name, button } of this.buttons) {
      const fits = look.actions.includes(name);
      if (!fits && document.activeElement === button) document.getElementById("main").focus();
      button.hidden = !fits;
    }
  }

  press(crawl, each) {
    if (each === CRAWL_ACTIONS.reopen && this.look.limit) return reopenBeyond(crawl, this.look.limit);
    const title = `${each.label} ${crawl}`;
    return act(title, each.question ? each.question(this.look) : "", each.label, () => each.call(crawl), each.danger);
  }

  save() {
    return act("Checkpoint", "", "", async () => {
      const { checkpoint } = await admin("CreateCheckpoint", {});
      notice(`Saved all crawls in checkpoint ${checkpoint.checkpoint}.`);
    });
  }
}

// Lets a crawl that ended at a limit go on, once the user has given a higher one.
async function reopenBeyond(crawl, { name, field, unit, reached }) {
  let problem = "";
  for (let value = 2 * reached; ;) {
    const said = await ask(`Reopen ${crawl}`, problem || `It has ended at ${name}. It goes on with what is left, up to a higher limit.`,
      "Reopen", [{ name: "limit", label: `${name} (0: no limit)`, value, type: "number", min: 0 }]);
    if (!said) return false;
    value = said.limit;
    try {
      await admin("ReopenCrawl", { crawl, spec: { limits: { [field]: `${value || 0}${unit}` } }, update_mask: `limits.${field}` });
      notice(`Reopen ${crawl}: accepted.`);
      return true;
    } catch (refused) {
      problem = refused.message;
    }
  }
}

function help(title, texts) {
  return el("details", {}, el("summary", {}, title),
    el("dl.help", {}, texts.map(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]).flat()));
}

// What the buttons of a crawl do.
export function crawlHelp() {
  return help("What these buttons do", [
    ["Pause", "Nothing new is fetched until Resume; pages being fetched are completed."],
    ["Stop", "The crawl ends; what is left in its queues stays, and Reopen goes on with it."],
    ["Tear down", "The crawl ends, if it has not, and leaves the frontier's memory for good. Its logs and files stay; it cannot be reopened."],
    ["Checkpoint", "A copy of all crawls on the frontier's disk, to restore them from."],
    ["Hold", "Not a button here, but `toehold hold`: the crawl stands still, and nothing of it is written until Resume."],
  ]);
}

// What the buttons of queues do.
export function queueHelp() {
  return help("What the buttons of a queue do", [
    ["Hold", "Its URIs wait until somebody releases it. Pages being fetched are completed."],
    ["Retire", "It is taken out of the crawl: its URIs stay, but are not fetched and do not keep the crawl from ending, until it is unretired."],
    ["Wake", "Its rest ends now, also one that politeness asks for."],
    ["Budget", "Limits what is spent on it: a page costs 1, unless queues.cost says otherwise."],
  ]);
}

// The buttons in a row of a queue.
export class QueueButtons {
  constructor(crawl, changed = () => {}) {
    this.crawl = crawl;
    this.changed = changed;
    this.hold = el("button.small", { type: "button", onclick: () => this.change(this.queue.paused ? "Release" : "Hold", { paused: !this.queue.paused }) });
    this.retire = el("button.small", { type: "button", onclick: () => this.change(this.isRetired ? "Unretire" : "Retire", { retired: !this.isRetired }) });
    this.wake = el("button.small", { type: "button", onclick: () => this.change("Wake", { wake: true }) }, "Wake");
    this.budget = el("button.small", { type: "button", onclick: () => this.setBudget() }, "Budget");
    this.element = el("div.row-buttons", {}, may("UpdateQueue") ? [this.hold, this.retire, this.wake, this.budget] : []);
  }

  get isRetired() {
    return this.queue.state === "RETIRED";
  }

  update(queue) {
    this.queue = queue;
    name(this.hold, queue.paused ? "Release" : "Hold", queue.key);
    name(this.retire, this.isRetired ? "Unretire" : "Retire", queue.key);
    name(this.wake, "Wake", queue.key);
    name(this.budget, "Budget", queue.key);
    this.wake.hidden = queue.state !== "SNOOZED";
  }

  async change(title, change) {
    const done = await act(`${title} ${this.queue.key}`, "", "", () =>
      admin("UpdateQueue", { crawl: this.crawl, queue_key: this.queue.key, change }));
    if (done) this.changed();
  }

  async setBudget() {
    const { key, session_budget, total_budget, expenditure } = this.queue;
    const said = await ask(`Budget of ${key}`, `It has spent ${expenditure} so far.`, "Set", [
      { name: "session", label: "Session budget: spent before other queues have their turn (0 or -1: no limit)", value: session_budget, type: "number" },
      { name: "total", label: "Total budget: spent in its life before it retires (-1: no limit)", value: total_budget, type: "number" },
    ]);
    if (said) await this.change("Budget of", { session_budget: said.session, total_budget: said.total });
  }
}

// The buttons in a row of a node.
export class NodeButtons {
  constructor(changed = () => {}) {
    this.changed = changed;
    this.drain = el("button.small", { type: "button", onclick: () => this.press("Drain", "DrainNode",
      "It completes the pages that it is fetching, returns the rest, and ends.") });
    this.forget = el("button.small", { type: "button", onclick: () => this.press("Forget", "ForgetNode",
      "Listings no longer have it. If it calls again, it is known again.") });
    this.element = el("div.row-buttons", {}, this.drain, this.forget);
  }

  update(node) {
    this.node = node;
    name(this.drain, "Drain", node.node);
    name(this.forget, "Forget", node.node);
    this.drain.hidden = !(may("DrainNode") && node.presence === "PRESENT" && !node.draining);
    this.forget.hidden = !(may("ForgetNode") && ["LOST", "LEFT"].includes(node.presence));
  }

  async press(title, method, question) {
    if (await act(`${title} ${this.node.node}`, question, title, () => admin(method, { node: this.node.node }), false)) this.changed();
  }
}

// Asks for seeds, a line each, until the frontier takes all, or the user gives up. True if any was added.
export async function addSeeds(crawl) {
  let text = "", problem = "", added = 0;
  for (;;) {
    const said = await ask(`Add seeds to ${crawl}`, problem || "They are fetched as soon as the crawl runs.", "Add",
      [{ name: "uris", label: "URLs, one a line", value: text, rows: 8 }]);
    if (!said) return added > 0;
    const uris = said.uris.split("\n").map((line) => line.trim()).filter(Boolean)
      .map((line) => (/^[a-z][a-z0-9+.-]*:\/\//i.test(line) ? line : `https://${line}`));
    try {
      const { result } = await admin("AddSeedBatch", { crawl, uris });
      added += Number(result.addedCount);
      if (!result.rejected.length) {
        notice(`${counted(result.addedCount, "seed")} added.`);
        return true;
      }
      text = result.rejected.map((each) => each.uri).join("\n");
      problem = `${counted(result.addedCount, "seed")} added; these are refused: ` +
        result.rejected.map((each) => each.verdict.replace("VERDICT_", "").toLowerCase().replaceAll("_", " ")).join(", ") + ".";
    } catch (refused) {
      text = said.uris;
      problem = refused.message;
    }
  }
}

// Asks for a setting's new value until the frontier takes it, or the user gives up. True if it was changed.
export async function changeSetting(crawl, setting, value, about = {}) {
  let text = typeof value === "string" ? value : JSON.stringify(value);
  let problem = "";
  for (;;) {
    const range = [about.range && `Range: ${about.range}.`, about.default && `Default: ${about.default}.`].filter(Boolean).join(" ");
    const said = await ask(`Change ${setting}`, problem || [about.meaning, range].filter(Boolean).join(" "), "Change",
      [{ name: "text", label: "New value (empty: the default)", value: text, rows: text.length > 60 ? 6 : 0 }]);
    if (!said) return false;
    text = said.text;
    try {
      const { changes } = await request(of(crawl, "settings"), { method: "POST", body: { name: setting, text } });
      const told = changes.map((each) => `${each.name} was ${JSON.stringify(each.was)}, is ${JSON.stringify(each.is)}`);
      notice(told.length ? `${told.join("; ")}.` : `${setting}: nothing to change.`);
      return told.length > 0;
    } catch (refused) {
      problem = refused.message;
    }
  }
}

function name(button, text, subject) {
  if (button.textContent !== text) button.textContent = text;
  button.setAttribute("aria-label", `${text} ${subject}`);
}
