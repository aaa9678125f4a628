// Requests to the console: JSON calls in the name of the session, and streams of events.

export const user = { login: true, csrf: "", caller: "", roles: [], crawls: [], rpcs: [], files: false, frontier: "" };

export class Refused extends Error {
  constructor(status, error) {
    super(error.message || `the console answered with status ${status}`);
    this.status = status;
    this.reason = (error.details || []).map((each) => each.reason).find(Boolean) || "";
  }
}

const onLogout = [];
export function whenLoginIsNeeded(listener) {
  onLogout.push(listener);
}

export async function request(path, { method = "GET", body, signal } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET" && user.csrf) headers["X-CSRF-Token"] = user.csrf;
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Refused(0, { message: "the console does not answer" });
  }
  const content = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const refused = new Refused(answer.status, content.error || {});
    if (answer.status === 401 && path !== "/console/session") onLogout.forEach((listener) => listener(refused.message));
    throw refused;
  }
  return content;
}

export function rpc(name, message) {
  return request(`/v1/${name}`, { method: "POST", body: message });
}

export function admin(method, message) {
  return rpc(`FrontierAdminService/${method}`, message);
}

export function may(name) {
  return user.rpcs.includes(name.includes("/") ? name : `FrontierAdminService/${name}`);
}

export function of(crawl, part, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  return `/console/crawls/${encodeURIComponent(crawl)}/${part}${query ? `?${query}` : ""}`;
}

// A question that may be asked again before it is answered, as by a timer or another filter. Once a later one
// has been answered, answers and refusals of earlier ones are dropped: they become undefined.
export function inOrder(ask) {
  let asked = 0, answered = 0;
  return async () => {
    const turn = ++asked;
    const answer = await ask().catch((problem) => { if (turn >= answered) throw problem; });
    if (turn < answered) return undefined;
    answered = turn;
    return answer;
  };
}

export async function session() {
  Object.assign(user, await request("/console/session"));
  return user;
}

export async function logIn(token) {
  Object.assign(user, await request("/console/session", { method: "POST", body: { token } }));
}

export async function logOut() {
  await request("/console/session", { method: "DELETE" });
  Object.assign(user, { login: true, csrf: "", caller: "", roles: [], rpcs: [], crawls: [] });
}

const AGAIN_MS = 2000;

// Listens to a stream until `close`, through restarts of frontier and console. `listeners` are by kind of event;
// `away` hears that the console does not answer, and with "" that it does again.
export function listen(path, listeners, away) {
  let source = null, timer = 0, closed = false;

  function open() {
    source = new EventSource(path);
    source.onopen = () => away("");
    for (const [kind, listener] of Object.entries(listeners)) {
      source.addEventListener(kind, (event) => listener(JSON.parse(event.data)));
    }
    source.onerror = again;
  }

  function again() {
    if (closed) return;
    source.close();
    timer = setTimeout(async () => {
      try {
        const could = user.rpcs.join();
        await session();
        if (closed) return;
        // The frontier is another one now, or the user's roles have changed: other acts are offered.
        if (!user.login && user.rpcs.join() !== could) { location.reload(); return; }
        if (user.login) onLogout.forEach((listener) => listener(user.problem || ""));
        else open();
      } catch (problem) {
        if (closed) return;
        away(problem.message);
        again();
      }
    }, AGAIN_MS);
  }

  open();
  return { close() { closed = true; clearTimeout(timer); if (source) source.close(); } };
}
