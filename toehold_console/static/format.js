// Numbers and times as text.

export function count(number) {
  return String(Math.round(Number(number))).replace(/\B(?=(\d{3})+$)/g, " ");
}

export function counted(number, noun) {
  return `${count(number)} ${noun}${Number(number) === 1 ? "" : "s"}`;
}

export function bytes(number) {
  let value = Number(number);
  if (value < 1000) return `${value} B`;
  for (const unit of ["kB", "MB", "GB", "TB"]) {
    value /= 1000;
    if (value < 999.95) return `${value.toFixed(1)} ${unit}`;
  }
  return `${(value / 1000).toFixed(1)} PB`;
}

export function duration(seconds) {
  const value = Number(seconds);
  if (value < 59.95) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  const minutes = Math.round(value / 60);
  if (minutes < 90) return `${minutes} min`;
  if (minutes < 2160) return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.round(minutes / 1440)} days`;
}

// The duration of a fetch: "40 ms" as well.
export function elapsed(seconds) {
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : duration(seconds);
}

export function rate(number) {
  return `${number < 10 ? number.toFixed(1) : count(number)} /s`;
}

// The time of day today, and the date too for other days.
export function moment(text) {
  if (!text) return "";
  const at = typeof text === "number" ? new Date(text * 1000) : new Date(text);
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  return at.toDateString() === new Date().toDateString() ? time : `${at.toISOString().slice(0, 10)} ${time}`;
}

// "in 12 s", by the frontier's clock.
export function until(text, now) {
  const left = (new Date(text) - new Date(now)) / 1000;
  return left > 0 ? `in ${duration(left)}` : "now";
}

const MOST_CHARACTERS = 240, END_CHARACTERS = 60;

// A long text, such as a URL of 8000 characters, without its middle: both ends tell what it is.
export function clipped(text) {
  const characters = [...text];
  if (characters.length <= MOST_CHARACTERS) return text;
  return `${characters.slice(0, MOST_CHARACTERS - END_CHARACTERS).join("")}…${characters.slice(-END_CHARACTERS).join("")}`;
}

export function word(name) {
  return name.toLowerCase().replaceAll("_", " ");
}

const CRAWL_STATES = { NASCENT: "Not launched", EMPTY: "Waiting" };
const QUEUE_STATES = { READY: "ready", BUSY: "fetching", SNOOZED: "resting", INACTIVE: "waiting",
  INELIGIBLE: "held back", RETIRED: "retired", EXHAUSTED: "empty" };

// "Running", "Paused": the state of a crawl.
export function stateOf(state) {
  return CRAWL_STATES[state] || `${state.slice(0, 1)}${word(state.slice(1))}`;
}

// The state of a queue.
export function queueState(state) {
  return QUEUE_STATES[state] || word(state);
}

// "3 ready, 12 resting": how many queues are in each state.
export function queueStates(counts) {
  return Object.entries(counts).filter(([, number]) => number).map(([state, number]) => `${count(number)} ${queueState(state)}`).join(", ");
}
