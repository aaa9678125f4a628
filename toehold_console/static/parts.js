// The further pages of a crawl: seeds, failures, queues, events, settings, files, and what a search finds.

import { inOrder, may, of, request } from "./api.js";
import { QueueButtons, addSeeds, changeSetting, queueHelp } from "./actions.js";
import { Table, card, el, notice, say, show } from "./dom.js";
import { bytes, clipped, count, counted, elapsed, moment, queueState, queueStates, word } from "./format.js";
import { changeColumns, eventColumns, failureColumns, failureKey, found, queueColumns, uriLink } from "./overview.js";

const STATES = ["READY", "BUSY", "SNOOZED", "INACTIVE", "INELIGIBLE", "RETIRED", "EXHAUSTED"];

// A listing that comes in pages of a hundred.
class Paged {
  constructor(crawl, part, table, parameters = () => ({})) {
    this.part = part;
    this.table = table;
    this.tokens = [""];
    this.ask = () => request(of(crawl, part, { ...parameters(), page_token: this.tokens[this.tokens.length - 1] }));
    this.asked = 0;
    this.next = el("button", { type: "button", disabled: true, onclick: () => this.turn(1) }, "Next page");
    this.before = el("button", { type: "button", disabled: true, onclick: () => this.turn(-1) }, "Page before");
    this.text = el("span", { role: "status" });
    this.pages = el("p.buttons", { hidden: true }, this.before, this.next, this.text);
    this.element = el("div", {}, table.element, this.pages);
  }

  // Only the answer to the last question counts: earlier ones are of other pages, or by other parameters.
  async load() {
    const turn = ++this.asked;
    this.next.disabled = this.before.disabled = true;
    try {
      const answer = await this.ask();
      if (turn !== this.asked) return;
      this.following = answer.next_page_token;
      this.table.update(answer[this.part]);
      say(this.text, `Page ${this.tokens.length}`);
    } catch (problem) {
      if (turn !== this.asked) return;
      notice(problem.message, true);
    }
    this.next.disabled = !this.following;
    this.before.disabled = this.tokens.length < 2;
    show(this.pages, Boolean(this.following) || this.tokens.length > 1);
  }

  turn(step) {
    if (step > 0) this.tokens.push(this.following);
    else this.tokens.pop();
    return this.load();
  }

  restart() {
    this.tokens = [""];
    return this.load();
  }
}

export class SeedsPage {
  constructor(crawl) {
    this.paged = new Paged(crawl, "seeds", new Table("Seeds", [
      { title: "Seed", head: true, long: true, element: found(crawl, (row) => row.uri) },
      { title: "Result", cell: (row) => word(row.result) },
      { title: "Outcome", long: true, cell: (row) => row.outcome },
    ], { empty: "The crawl has no seed.", keyOf: (row) => row.uri }));
    this.text = el("p");
    const add = el("button", { type: "button", hidden: !may("AddSeedBatch"), onclick: async () => {
      if (await addSeeds(crawl)) this.paged.load();
    } }, "Add seeds");
    this.element = card("Seeds", this.text, add, this.paged.element);
    this.paged.load();
  }

  update(look) {
    say(this.text, look.seeds.text);
  }
}

export class FailuresPage {
  constructor(crawl) {
    this.ask = inOrder(() => request(of(crawl, "failures")));
    this.text = el("p", {}, "Reading the outcomes …");
    this.table = new Table("Failures by host and reason", failureColumns(crawl), { empty: "No URI failed or was answered with an error.", keyOf: failureKey });
    this.element = card("Failures", this.text, this.table.element);
    this.timer = setInterval(() => this.load(), 5000);
    this.load();
  }

  async load() {
    try {
      const answer = await this.ask();
      if (!answer) return;
      const { groups, uri_count, host_count, left_out } = answer;
      say(this.text, `${counted(uri_count, "URI")} of ${counted(host_count, "host")} failed or answered with an error` +
        (left_out ? `; ${counted(left_out, "further reason")} left out.` : "."));
      this.table.update(groups);
    } catch (problem) {
      say(this.text, problem.message);
    }
  }

  close() {
    clearInterval(this.timer);
  }
}

export class QueuesPage {
  constructor(crawl) {
    this.now = new Date().toISOString();
    this.state = el("select", { id: "queue-state", onchange: () => this.paged.restart() },
      el("option", { value: "" }, "all"), STATES.map((state) => el("option", { value: state }, queueState(state))));
    this.paged = new Paged(crawl, "queues",
      new Table("Queues", queueColumns(crawl, () => this.now, () => this.paged.load()), { empty: "No such queue." }),
      () => (this.state.value ? { state: this.state.value } : {}));
    this.text = el("p");
    this.element = card("Queues", this.text,
      el("p", {}, el("label", { for: "queue-state" }, "State "), this.state, " ",
        el("button", { type: "button", onclick: () => this.paged.load() }, "Refresh")),
      queueHelp(), this.paged.element);
    this.paged.load();
  }

  update(look) {
    this.now = look.at;
    say(this.text, queueStates(look.queue_counts));
  }
}

export class EventsPage {
  constructor() {
    this.table = new Table("Events", eventColumns, { empty: "No event yet.", keyOf: (row) => row.sequence });
    this.filter = el("select", { id: "event-kind", onchange: () => this.render() },
      [["", "all"], ["acts", "acts of operators"], ["problems", "problems"], ["states", "changes of state"]]
        .map(([value, text]) => el("option", { value }, text)));
    this.events = [];
    this.element = card("Events", el("p", {}, el("label", { for: "event-kind" }, "Show "), this.filter), this.table.element);
  }

  told(events) {
    this.events = events;
    this.render();
  }

  render() {
    const wanted = { acts: (each) => each.kind === "operator_acted", problems: (each) => each.problem,
      states: (each) => each.kind === "status_changed" }[this.filter.value] || (() => true);
    this.table.update(this.events.filter(wanted).reverse());
  }
}

export class SettingsPage {
  constructor(crawl) {
    this.crawl = crawl;
    this.ask = inOrder(() => request(of(crawl, "settings")));
    this.rows = [];
    this.query = el("input", { id: "setting-name", type: "search", autocomplete: "off", oninput: () => this.render() });
    this.changedOnly = el("input", { id: "setting-changed", type: "checkbox", onchange: () => this.render() });
    this.table = new Table("Settings", [
      { title: "Setting", head: true, cell: (row) => row.name },
      { title: "Value", long: true, cell: (row) => `${JSON.stringify(row.value)}${row.is_default ? "" : " (not the default)"}` },
      { title: "Meaning", long: true, cell: (row) => row.meaning.replaceAll("`", "") },
      { title: "", label: "Change", element: () => this.button() },
    ], { empty: "No such setting.", keyOf: (row) => row.name });
    this.changes = new Table("Changes of settings", changeColumns, { empty: "Nobody has changed a setting, as far as the kept events tell.", keyOf: (row) => row.sequence });
    this.element = el("div", {}, card("Changes", this.changes.element),
      card("Settings", el("p", {}, el("label", { for: "setting-name" }, "Name "), this.query, " ",
        this.changedOnly, el("label", { for: "setting-changed" }, " only those that differ from their defaults")), this.table.element));
    this.load();
  }

  button() {
    const button = el("button.small", { type: "button" }, "Change");
    let current = null;
    button.addEventListener("click", async () => {
      if (await changeSetting(this.crawl, current.name, current.value, current)) this.load();
    });
    return { element: button, update(row) {
      current = row;
      button.hidden = !may("UpdateCrawl") || row.changes === "fixed";
      button.setAttribute("aria-label", `Change ${row.name}`);
    } };
  }

  async load() {
    try {
      const answer = await this.ask();
      if (!answer) return;
      this.rows = answer.settings;
      this.changes.update(answer.changes);
      this.render();
    } catch (problem) {
      notice(problem.message, true);
    }
  }

  render() {
    const wanted = this.query.value.trim().toLowerCase();
    this.table.update(this.rows.filter((row) => row.name.includes(wanted) && !(this.changedOnly.checked && row.is_default)));
  }
}

export class FilesPage {
  constructor(crawl) {
    this.crawl = crawl;
    this.text = el("p");
    this.table = new Table("Files", [
      { title: "File", head: true, long: true, element: () => {
        const link = el("a", { download: true });
        return { element: link, update(row) {
          link.href = of(crawl, `files/${encodeURIComponent(row.folder)}/${encodeURIComponent(row.name)}`);
          say(link, row.name);
        } };
      } },
      { title: "Kind", cell: (row) => row.folder },
      { title: "Size", number: true, cell: (row) => bytes(row.size) },
      { title: "Changed", cell: (row) => moment(row.changed) },
    ], { empty: "No file.", keyOf: (row) => `${row.folder}/${row.name}` });
    this.element = card("Files", this.text, this.table.element);
    this.load();
  }

  async load() {
    try {
      const { files, are_here } = await request(of(this.crawl, "files"));
      say(this.text, are_here ? "Those of the console's machine, the report and logs first." :
        "The files are on other machines: WARC files with the nodes, logs with the frontier. Start the console with --data or --dir there.");
      this.table.update(files);
    } catch (problem) {
      say(this.text, problem.message);
    }
  }
}

// The result of a search.
export class FindPage {
  constructor(crawl, query) {
    this.crawl = crawl;
    this.ask = inOrder(() => request(of(crawl, "find", { q: query })));
    this.content = el("div", { role: "status" }, el("p", {}, "Searching …"));
    this.element = card(`Search: ${clipped(query)}`, this.content);
    this.load();
  }

  async load() {
    try {
      const answer = await this.ask();
      if (!answer) return;
      this.content.replaceChildren(...(answer.kind === "uri" ? this.uri(answer) : this.queues(answer)));
    } catch (problem) {
      this.content.replaceChildren(el("p.problem", {}, clipped(problem.message)));
    }
  }

  uri(answer) {
    const history = el("div", {}, el("p", {}, "Reading its outcomes …"));
    this.history(answer.uri, history);
    return [
      answer.note ? el("p", {}, clipped(answer.note)) : null,
      el("p", {}, el("code.uri", {}, answer.uri), " ", el("strong", {}, word(answer.state)),
        answer.refused_by ? `, refused by the rule ${answer.refused_by}` : ""),
      answer.queue_key ? el("p", {}, "Queue ", el("a", { href: uriLink(this.crawl, answer.queue_key) }, clipped(answer.queue_key))) : null,
      el("h3", {}, "Why it is not being fetched"), reasons(answer.reasons),
      el("h3", {}, "Its story"), answer.story.length
        ? el("ol.story", {}, answer.story.map((each) => el("li", {}, each.at ? `${moment(each.at)}: ` : "", clipped(each.text))))
        : el("p.none", {}, "The crawl has never taken it in."),
      el("h3", {}, "Its outcomes"), history,
    ].filter(Boolean);
  }

  async history(uri, place) {
    try {
      const { outcomes, complete } = await request(of(this.crawl, "history", { uri }));
      const table = new Table("Outcomes", [
        { title: "When", cell: (row) => moment(row.at) },
        { title: "Outcome", cell: (row) => `${row.disposition}, ${row.status}` },
        { title: "Reason", long: true, cell: (row) => row.reason },
        { title: "Size", number: true, cell: (row) => bytes(row.body_bytes) },
        { title: "Took", cell: (row) => (row.duration_seconds ? elapsed(row.duration_seconds) : "") },
        { title: "Node", cell: (row) => row.node },
        { title: "Found on", long: true, cell: (row) => row.via },
      ], { empty: "None among those that the frontier keeps.", keyOf: (row) => row.at });
      table.update(outcomes);
      place.replaceChildren(table.element,
        complete ? "" : el("p", {}, "Only a part of the kept outcomes was searched. crawl.log has all."));
    } catch (problem) {
      place.replaceChildren(el("p.problem", {}, problem.message));
    }
  }

  queues(answer) {
    return [
      el("p", {}, `${counted(answer.queue_count, "queue")} of ${answer.subject}.`),
      ...answer.queues.map((queue) => {
        const buttons = new QueueButtons(this.crawl, () => this.load());
        buttons.update(queue);
        return el("article.found", {}, el("h3", {}, clipped(queue.key)),
          el("p", {}, `${queue.paused ? "held" : queueState(queue.state)}; ${count(queue.queued)} queued, ${count(queue.succeeded)} fetched, ` +
            `${count(queue.failed)} failed; spent ${count(queue.expenditure)}`),
          reasons(answer.reasons[queue.key] || []), buttons.element);
      }),
    ];
  }
}

function reasons(list) {
  if (!list.length) return el("p.none", {}, "Nothing keeps it.");
  return el("ul.reasons", {}, list.map((each) => el("li", {}, clipped(each.message), each.until ? ` (until ${moment(each.until)})` : "",
    el("span.why", {}, ` ${word(each.why)}`))));
}
