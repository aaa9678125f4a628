// The pages of the frontier: its crawls, and its nodes and shards.

import { admin, inOrder, request, user } from "./api.js";
import { Table, card, el, say, show } from "./dom.js";
import { count, moment, stateOf } from "./format.js";
import { nodeColumns, shardColumns } from "./overview.js";

const POLL_MS = 3000, NODES_A_PAGE = 100;

// All crawls of the frontier.
export class CrawlsView {
  constructor() {
    this.ask = inOrder(crawls);
    this.table = new Table("Crawls", [
      { title: "Crawl", head: true, element: () => {
        const link = el("a");
        return { element: link, update(row) {
          link.href = `#/crawls/${encodeURIComponent(row.crawl)}/overview`;
          say(link, row.crawl);
        } };
      } },
      { title: "State", cell: (row) => stateOf((row.status?.state || "").replace("CRAWL_STATE_", "")) },
      { title: "Outcome", long: true, cell: (row) => row.status?.failure || row.status?.reason || "" },
      { title: "Seeds", number: true, cell: (row) => count(row.seedCount || 0) },
      { title: "Made", cell: (row) => moment(row.createTime) },
      { title: "Ended", cell: (row) => moment(row.finishTime) },
      { title: "Description", long: true, cell: (row) => row.spec?.description || "" },
    ], { empty: "The frontier has no crawl. `toehold run spec.toml` makes one.", keyOf: (row) => row.crawl });
    this.text = el("p", { role: "status" });
    this.element = el("div", {}, el("h1", {}, "Crawls"), card("Crawls", this.text, this.table.element));
    this.timer = setInterval(() => this.load(), POLL_MS);
    this.load();
    document.title = "Crawls · Toehold";
  }

  async load() {
    try {
      const known = await this.ask();
      if (!known) return;
      this.table.update(known);
      say(this.text, "");
    } catch (problem) {
      say(this.text, problem.message);
    }
  }

  close() {
    clearInterval(this.timer);
  }
}

export async function crawls() {
  if (user.crawls.length) {
    const asked = user.crawls.map((crawl) => admin("GetCrawl", { crawl }).then((answer) => answer.crawl, () => null));
    return (await Promise.all(asked)).filter(Boolean);
  }
  const all = [];
  for (let page_token = ""; ;) {
    const answer = await admin("ListCrawls", { page_size: 500, page_token });
    all.push(...answer.crawls);
    page_token = answer.nextPageToken;
    if (!page_token) return all;
  }
}

// All nodes of the frontier, of which there may be a thousand.
export class NodesView {
  constructor() {
    this.ask = inOrder(() => request("/console/nodes"));
    this.rows = [];
    this.page = 0;
    this.query = el("input", { id: "node-name", type: "search", autocomplete: "off", oninput: () => { this.page = 0; this.render(); } });
    this.table = new Table("Nodes", nodeColumns(() => this.load()), { empty: "No such node.", keyOf: (row) => row.node });
    this.before = el("button", { type: "button", onclick: () => { this.page -= 1; this.render(); } }, "Page before");
    this.next = el("button", { type: "button", onclick: () => { this.page += 1; this.render(); } }, "Next page");
    this.text = el("p", { role: "status" });
    this.pages = el("span");
    this.turning = el("p.buttons", { hidden: true }, this.before, this.next, this.pages);
    this.shards = new Table("Shards", shardColumns, { keyOf: (row) => row.shard });
    this.shardsCard = card("Shards", this.shards.element);
    this.element = el("div", {}, el("h1", {}, "Nodes"), card("Nodes", this.text,
      el("p", {}, el("label", { for: "node-name" }, "Name "), this.query), this.table.element,
      this.turning), this.shardsCard);
    this.timer = setInterval(() => { if (!document.hidden) this.load(); }, POLL_MS);
    this.load();
    document.title = "Nodes · Toehold";
  }

  async load() {
    try {
      const answer = await this.ask();
      if (!answer) return;
      const { text, rows, shards } = answer;
      say(this.text, text);
      show(this.shardsCard, shards.length > 0);
      this.shards.update(shards);
      this.rows = rows;
      this.render();
    } catch (problem) {
      say(this.text, problem.message);
    }
  }

  render() {
    const rows = this.rows.filter((row) => row.node.includes(this.query.value.trim()));
    const pages = Math.max(Math.ceil(rows.length / NODES_A_PAGE), 1);
    this.page = Math.min(this.page, pages - 1);
    this.table.update(rows.slice(this.page * NODES_A_PAGE, (this.page + 1) * NODES_A_PAGE));
    this.before.disabled = this.page === 0;
    this.next.disabled = this.page === pages - 1;
    show(this.turning, pages > 1);
    say(this.pages, `Page ${this.page + 1} of ${pages}`);
  }

  close() {
    clearInterval(this.timer);
  }
}
