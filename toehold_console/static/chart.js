// The course of a crawl: pages a second, URIs in the queue, and failures, over time.

import { el, svg, say } from "./dom.js";
import { count, duration } from "./format.js";

const WIDTH = 600, HEIGHT = 70, TOP = 8, BOTTOM = 4;

const LINES = [
  { name: "Pages a second", kind: "pages", values: (course) => course.rate, text: (value) => value.toFixed(1) },
  { name: "Queued", kind: "queued", values: (course) => course.queued, text: count },
  { name: "Failed", kind: "failed", values: (course) => course.failed, text: count },
];

export class Chart {
  constructor() {
    this.course = { at: [], rate: [], failed: [], queued: [] };
    this.place = null;
    this.ended = false;
    this.panels = LINES.map((line) => new Panel(line));
    this.time = el("p.axis", {});
    this.reading = el("output.reading", { "aria-live": "polite" });
    this.element = el("div.chart", {
      tabindex: "0", role: "group",
      "aria-label": "Course of the crawl; the arrow keys read single moments",
      onkeydown: (event) => this.key(event),
      onpointermove: (event) => this.point(event),
      onpointerleave: () => this.read(null),
      onblur: () => this.read(null),
    }, this.panels.map((panel) => panel.element), this.time, this.reading);
  }

  update(course) {
    this.course = course;
    this.panels.forEach((panel) => panel.update(course, this.ended));
    const last = course.at.length ? course.at[course.at.length - 1] : 0;
    say(this.time, course.at.length ? `Launch to ${this.ended ? "end" : "now"}, ${duration(last)}` : "No statistics yet.");
    this.read(this.place);
  }

  key(event) {
    const last = this.course.at.length - 1;
    if (last < 0 || !["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    const from = this.place ?? last + 1;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last }[event.key];
    this.read(Math.min(Math.max(to, 0), last));
  }

  point(event) {
    const frame = this.panels[0].picture.getBoundingClientRect();
    const { at } = this.course;
    if (!at.length || !frame.width) return;
    const wanted = ((event.clientX - frame.left) / frame.width) * at[at.length - 1];
    let nearest = 0;
    at.forEach((each, place) => {
      if (Math.abs(each - wanted) < Math.abs(at[nearest] - wanted)) nearest = place;
    });
    this.read(nearest);
  }

  // Shows the values at one moment; null shows none.
  read(place) {
    const known = place !== null && place < this.course.at.length;
    this.place = known ? place : null;
    this.panels.forEach((panel) => panel.mark(this.place));
    say(this.reading, known
      ? `${duration(this.course.at[place])} after the launch: ` +
        this.panels.map((panel) => `${panel.line.name.toLowerCase()} ${panel.line.text(panel.values[place])}`).join(", ")
      : "");
  }
}

class Panel {
  constructor(line) {
    this.line = line;
    this.values = [];
    this.at = [];
    this.area = svg("path", { class: `area ${line.kind}` });
    this.path = svg("path", { class: `line ${line.kind}` });
    this.cursor = svg("line", { class: "cursor", y1: 0, y2: HEIGHT, visibility: "hidden" });
    this.picture = svg("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": line.name,
    }, this.area, this.path, this.cursor);
    this.now = el("strong");
    this.most = el("span");
    this.element = el("figure", {}, el("figcaption", {}, el("span", {}, line.name), " ", this.now, this.most), this.picture);
  }

  update(course, ended) {
    this.values = this.line.values(course);
    this.at = course.at;
    const most = Math.max(...this.values, 0), last = this.values[this.values.length - 1] ?? 0;
    say(this.now, ended && this.line.kind === "pages" ? "" : this.line.text(last));
    say(this.most, most ? ` at most ${this.line.text(most)}` : "");
    this.picture.setAttribute("aria-label", `${this.line.name}: now ${this.line.text(last)}, at most ${this.line.text(most)}`);
    const points = this.values.map((value, place) => `${this.x(place)},${this.y(value, most)}`);
    this.path.setAttribute("d", points.length ? `M${points.join("L")}` : "");
    this.area.setAttribute("d", points.length ? `M0,${HEIGHT}L${points.join("L")}L${this.x(points.length - 1)},${HEIGHT}Z` : "");
  }

  mark(place) {
    this.cursor.setAttribute("visibility", place === null ? "hidden" : "visible");
    if (place !== null) for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, this.x(place));
  }

  x(place) {
    const length = this.at[this.at.length - 1] || 1;
    return ((this.at[place] / length) * WIDTH).toFixed(1);
  }

  y(value, most) {
    return (HEIGHT - BOTTOM - (most ? (value / most) * (HEIGHT - TOP - BOTTOM) : 0)).toFixed(1);
  }
}
