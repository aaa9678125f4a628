// Elements: how they are made, and how they change without losing the focus or what somebody is typing.

import { clipped } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

// el("button.quiet", {type: "button", onclick}, "Pause"): an element with its class, attributes and children.
export function el(kind, attributes = {}, ...children) {
  const [name, ...classes] = kind.split(".");
  const made = document.createElement(name);
  if (classes.length) made.className = classes.join(" ");
  return filled(made, attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((each) => each !== null && each !== undefined && each !== ""));
  return made;
}

// Sets a text only if it is another one: a screen reader would read it again.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Says a text that may be very long. Its middle can be read by pointing at it.
export function sayLong(element, text) {
  const shown = clipped(text);
  say(element, shown);
  if (shown !== text) element.title = text;
  else element.removeAttribute("title");
}

export function show(element, visible) {
  if (element.hidden === visible) element.hidden = !visible;
}

// A table whose rows are found again by their keys. A column is {title, cell}: `cell` makes the content of a
// row once, as a text or as an element with a method `update`.
export class Table {
  constructor(caption, columns, { empty = "None.", keyOf = (row) => row.key } = {}) {
    this.columns = columns;
    this.keyOf = keyOf;
    this.rows = new Map();
    this.body = el("tbody", { role: "rowgroup" });
    this.none = el("p.none", {}, empty);
    this.heads = columns.map((column) =>
      el("th", { scope: "col", role: "columnheader", class: classes(column) },
        column.title || el("span.unseen", {}, column.label || "Actions")));
    // On a phone a row is a block, and would no longer be a row for screen readers without its role.
    this.grid = el(columns.length > 2 ? "table" : "table.short", { role: "table" }, el("caption.unseen", {}, caption),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, this.heads)), this.body);
    this.scroll = el("div.scroll", { tabindex: "0", role: "region", "aria-label": `Table: ${caption}` }, this.grid);
    this.element = el("div", {}, this.scroll, this.none);
    this.update([]);
  }

  update(rows) {
    show(this.scroll, rows.length > 0);
    show(this.none, rows.length === 0);
    const kept = new Map();
    let place = this.body.firstElementChild;
    for (const row of rows) {
      const key = this.keyOf(row);
      if (kept.has(key)) continue;
      let line = this.rows.get(key);
      if (!line) line = new Line(this.columns);
      line.update(row);
      kept.set(key, line);
      if (line.element !== place) this.body.insertBefore(line.element, place);
      else place = place.nextElementSibling;
    }
    for (const [key, line] of this.rows) if (!kept.has(key)) line.element.remove();
    this.rows = kept;
    this.hideEmpty();
  }

  // A column in which no row has anything leaves its room to the others.
  hideEmpty() {
    this.columns.forEach((column, place) => {
      const cells = [...this.rows.values()].map((line) => line.cells[place]);
      const empty = cells.length > 0 && !cells.some(hasContent);
      for (const cell of [this.heads[place], ...cells]) cell.classList.toggle("empty", empty);
    });
  }
}

function classes(column) {
  return [column.number ? "number" : "", column.long ? "long" : "", column.name ? "name" : ""].filter(Boolean).join(" ") || null;
}

function hasContent(cell) {
  const buttons = cell.querySelectorAll("button");
  return buttons.length ? [...buttons].some((button) => !button.hidden) : cell.textContent !== "";
}

class Line {
  constructor(columns) {
    this.columns = columns;
    this.cells = columns.map((column) => el(column.head ? "th" : "td", {
      scope: column.head ? "row" : null,
      role: column.head ? "rowheader" : "cell",
      "data-label": column.head ? null : column.title || null,
      class: classes(column),
    }));
    this.element = el("tr", { role: "row" }, this.cells);
    this.made = columns.map(() => null);
  }

  update(row) {
    this.columns.forEach((column, place) => {
      if (column.element) {
        // An element is made once, and reads the newest row.
        if (!this.made[place]) {
          this.made[place] = column.element();
          this.cells[place].append(this.made[place].element);
        }
        this.made[place].update(row);
      } else {
        (column.long ? sayLong : say)(this.cells[place], String(column.cell(row) ?? ""));
      }
    });
  }
}

// A part of the page with a heading.
export function card(title, ...children) {
  const heading = el("h2", {}, title);
  const element = el("section.card", { "aria-label": title }, heading, ...children);
  return element;
}

const notices = () => document.getElementById("notices");

// Tells what has happened, for some seconds; an error stays until it is closed.
export function notice(text, isError = false) {
  const close = el("button.quiet", { type: "button", "aria-label": "Close this message" }, "×");
  const told = el(`p.notice${isError ? ".error" : ""}`, { role: isError ? "alert" : null }, el("span", {}, text), close);
  close.addEventListener("click", () => told.remove());
  notices().append(told);
  while (notices().children.length > 4) notices().firstElementChild.remove();
  if (!isError) setTimeout(() => told.remove(), 8000);
}

// Asks a question; the answer is null, or what `fields` were filled with (true without fields).
export function ask(title, text, action, fields = [], danger = false) {
  const dialog = document.getElementById("dialog");
  return new Promise((resolve) => {
    const inputs = fields.map((field) => {
      const input = el(field.rows ? "textarea" : "input", {
        id: `field-${field.name}`, name: field.name, type: field.rows ? null : field.type || "text", rows: field.rows,
        autocomplete: "off", spellcheck: "false", min: field.min,
      });
      input.value = field.value ?? "";
      return input;
    });
    const form = el("form", { method: "dialog" },
      el("h2", { id: "dialog-title" }, title),
      text ? el("p", {}, text) : null,
      fields.map((field, place) => el("p", {}, el("label", { for: `field-${field.name}` }, field.label), inputs[place])),
      el("p.buttons", {},
        el(danger ? "button.danger" : "button.primary", { type: "submit", value: "yes" }, action),
        el("button", { type: "submit", value: "no", formnovalidate: true }, "Cancel")));
    dialog.replaceChildren(form);
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      const filled = Object.fromEntries(inputs.map((input) => [input.name, input.value]));
      resolve(dialog.returnValue === "yes" ? (fields.length ? filled : true) : null);
    }, { once: true });
    dialog.showModal();
    (inputs[0] || form.querySelector("button")).focus();
    if (inputs[0]) inputs[0].select();
  });
}
