// A small fetcher for a Toehold frontier: it takes leases, fetches them, offers the links that it finds, and
// reports. The comments of protos/toehold/frontier/v1/*.proto are the manual of all that is called here.
import { isUtf8 } from "node:buffer";
import { createHash, randomUUID } from "node:crypto";
import dns from "node:dns";
import { EventEmitter, once } from "node:events";
import http from "node:http";
import https from "node:https";
import net from "node:net";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import zlib from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { durationFromMs, durationMs, timestampNow, type Duration } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type CallOptions } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Parser } from "htmlparser2";
import { ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { Disposition, type FetchPolicy } from "./gen/toehold/frontier/v1/crawl_pb.js";
import * as pb from "./gen/toehold/frontier/v1/frontier_pb.js";

class Refused extends Error {} // the crawl does not allow the address
class Silent extends Error {} // the server said nothing for too long

// ---- the exchange with the frontier ----

const { values: flags } = parseArgs({
  options: {
    frontier: { type: "string", default: "127.0.0.1:7707" },
    crawl: { type: "string", default: "" },
    name: { type: "string", default: `typescript-${process.pid}` },
    toes: { type: "string", default: "10" },
  },
});
if (!(Number(flags.toes) >= 1)) {
  console.error(`--toes must be 1 or more, got ${flags.toes}`);
  process.exit(2);
}
// The frontier allows a ping every five seconds.
const frontier = createClient(
  pb.FrontierService,
  createGrpcTransport({ baseUrl: `http://${flags.frontier}`, pingIntervalMs: 30_000, pingTimeoutMs: 10_000 }),
);
const node = { node: flags.name, session: randomUUID() };
const held = new Map<string, { token: Uint8Array; leased: AbortController; fetching: AbortController }>();
const policies = new Map<string, FetchPolicy>();
const ending = new AbortController();
const leaving = new AbortController();
const changes = new EventEmitter(); // a lease has ended, the pool has another size, or the fetcher ends
let toes = Number(flags.toes);
let leaseMs = 3000; // the life of a lease that no heartbeat names

/** Asks for leases until the end. It takes one only for a free toe, so all that it holds are started. */
async function feed(): Promise<void> {
  while (!ending.signal.aborted) {
    const free = toes - held.size;
    if (free <= 0) {
      await once(changes, "change");
      continue;
    }
    const request = {
      ...node,
      crawl: flags.crawl,
      maxLeases: Math.min(free, 1000),
      waitDuration: durationFromMs(Math.min(20_000, Math.floor(leaseMs / 3))),
      knownFetchPolicyIds: [...policies.keys()],
    };
    // Leases that are on their way when the fetcher ends go back with its last heartbeat.
    let askedMs = 0;
    const next = (options: CallOptions) => {
      askedMs = performance.now();
      return frontier.next(request, options);
    };
    const answer = await call(next, 30_000, ending.signal);
    for (const policy of answer.fetchPolicies) policies.set(policy.fetchPolicyId, policy);
    // After a longer time this process stood still, and leases lapse before a heartbeat names them.
    if (performance.now() - askedMs < (leaseMs * 2) / 3) for (const lease of answer.leases) void toe(lease);
    if (answer.leases.length === 0) await pause(milliseconds(answer.retryDuration), ending.signal);
  }
}

/**
 * Takes one lease through its life. It offers the links before it reports: if this process dies between the
 * two, the page is fetched again, and no link is lost.
 */
async function toe(lease: pb.Lease): Promise<void> {
  const leased = new AbortController();
  const fetching = new AbortController();
  const key = keyOf(lease.token);
  held.set(key, { token: lease.token, leased, fetching });
  // Goes on if a heartbeat says meanwhile that the lease has ended: this very report may have ended it.
  const finish = async (report: pb.Report) => {
    const request = { ...node, reports: [report] };
    const { results } = await call((options) => frontier.finished(request, options), 30_000);
    if (results[0]?.disposition === Disposition.INVALID_REPORT) throw new Error(results[0].problem);
  };
  try {
    const { report, links } = await fetchLease(lease, policies.get(lease.fetchPolicyId)!, fetching);
    await offer(lease, links, leased.signal);
    if (!leased.signal.aborted) await finish(report);
  } catch (error) {
    if (leased.signal.aborted) return;
    console.error(`${lease.uri}: ${error}`); // a defect here, or the frontier refuses the links or the report
    await finish(newReport(lease, -5)).catch((final) => {
      console.error(`${lease.uri}: not reported, so the lease lapses: ${final}`);
    });
  } finally {
    held.delete(key);
    changes.emit("change");
  }
}

/** Fails if the frontier refuses links, but not if their crawl is over: then links have no place any more. */
async function offer(lease: pb.Lease, links: pb.Candidate[], signal: AbortSignal): Promise<void> {
  for (const candidates of batches(links)) {
    const request = { crawl: lease.crawl, candidates };
    try {
      await call((options) => frontier.schedule(request, options), 30_000, signal);
    } catch (error) {
      if (CRAWL_IS_OVER.includes(reasonOf(ConnectError.from(error)) ?? "")) return;
      throw error;
    }
  }
}

const CRAWL_IS_OVER = ["CRAWL_FINISHED", "CRAWL_TORN_DOWN", "UNKNOWN_CRAWL"];
const keyOf = (token: Uint8Array) => Buffer.from(token).toString("hex");

/** Keeps each Schedule within 1000 candidates and 8 MiB. */
function batches(candidates: pb.Candidate[]): pb.Candidate[][] {
  const found: pb.Candidate[][] = [];
  let bytes = Infinity;
  for (const candidate of candidates) {
    bytes += toBinary(pb.CandidateSchema, candidate).length;
    if (bytes > 4 << 20 || found.at(-1)!.length === 1000) {
      found.push([]);
      bytes = 0;
    }
    found.at(-1)!.push(candidate);
  }
  return found;
}

/** Names the leases that are held, and obeys the answer. */
async function beat(): Promise<void> {
  while (!leaving.signal.aborted) {
    const tokens = [...held.values()].map((one) => one.token);
    const request = { ...node, tokens, toeSteps: [{ step: "FETCHING", count: tokens.length }] };
    const answer = await call((options) => frontier.heartbeat(request, options), 5000, leaving.signal);
    const { endedTokens, interruptTokens } = answer;
    for (const token of endedTokens) held.get(keyOf(token))?.leased.abort();
    for (const token of [...endedTokens, ...interruptTokens]) held.get(keyOf(token))?.fetching.abort();
    for (const token of endedTokens) held.delete(keyOf(token));
    toes = answer.poolSize ?? Number(flags.toes);
    leaseMs = milliseconds(answer.leaseDuration);
    changes.emit("change");
    if (answer.drain) ending.abort();
    await pause(milliseconds(answer.intervalDuration), leaving.signal);
  }
}

const MAX_FAILURES = 5; // of a call, in a way that has no name; then that counts as a refusal
const FIRST_PAUSE_MS = 200;

/**
 * Makes one call until the frontier answers or refuses. An error without Toehold's ErrorInfo is the
 * transport's. All calls may be repeated; the pauses grow up to `timeoutMs`.
 */
async function call<T>(
  rpc: (options: CallOptions) => Promise<T>,
  timeoutMs: number,
  signal = new AbortController().signal,
): Promise<T> {
  let failures = 0;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, timeoutMs)) {
    try {
      return await rpc({ timeoutMs, signal });
    } catch (error) {
      const problem = ConnectError.from(error);
      const reason = reasonOf(problem);
      if (reason === "SESSION_SUPERSEDED") {
        console.error(`${problem}`); // another process has this node's name, and all that this one held
        process.exit(1);
      }
      if (signal.aborted || isFinal(problem.code, reason)) throw error;
      if (!reason && !LATER.includes(problem.code) && ++failures === MAX_FAILURES) throw error;
      if (pauseMs === FIRST_PAUSE_MS) console.error(`${problem}; trying again`);
      const asked = milliseconds(problem.findDetails(RetryInfoSchema)[0]?.retryDelay);
      await pause(Math.max(asked, pauseMs * (0.5 + Math.random() / 2)), signal);
    }
  }
}

const LATER = [Code.Unavailable, Code.DeadlineExceeded];

function isFinal(code: Code, reason?: string): boolean {
  if (reason) return !LATER.includes(code) && code !== Code.ResourceExhausted;
  return code === Code.ResourceExhausted || code === Code.Unimplemented; // too large for gRPC, or no frontier
}

const reasonOf = (problem: ConnectError) =>
  problem.findDetails(ErrorInfoSchema).find((detail) => detail.domain === "toehold")?.reason;
const pause = (ms: number, signal: AbortSignal) => sleep(Math.max(0, ms), null, { signal });
const milliseconds = (duration?: Duration) => (duration ? durationMs(duration) : 0);

// ---- one fetch ----

const MAX_ROBOTS_BYTES = 500 << 10;
const MAX_ROBOTS_REDIRECTS = 5;
const MAX_PAGE_BYTES = 10 << 20; // of a page that links are looked for in

type Fetched = { report: pb.Report; links: pb.Candidate[] };
type Answer = { headers: http.IncomingHttpHeaders; body: Buffer };

const newReport = (lease: pb.Lease, fetchStatus = 0) =>
  create(pb.ReportSchema, {
    token: lease.token,
    outcome: pb.Outcome.FETCHED,
    startTime: timestampNow(),
    fetchStatus,
  });

/** The report of a lease, and the links found. */
async function fetchLease(lease: pb.Lease, policy: FetchPolicy, fetching: AbortController): Promise<Fetched> {
  const isRobots = lease.purpose === pb.Purpose.ROBOTS;
  let report = newReport(lease);
  let links: pb.Candidate[] = [];
  if (policy.proxy) { // a direct request is not what the crawl's operator wants
    return { report: Object.assign(newReport(lease, -5), { annotations: ["noProxies"] }), links };
  }
  const { signal } = fetching;
  const deadline = setTimeout(() => fetching.abort("deadline"), milliseconds(policy.timeout));
  const beganMs = performance.now();
  let answer = await get(lease.uri, lease, policy, report, signal);
  let uri = lease.uri;
  for (let redirects = 0; isRobots && isRedirect(report); redirects++) {
    const location = targetOf(answer!);
    if (location && redirects < MAX_ROBOTS_REDIRECTS && URL.canParse(location, uri)) {
      uri = new URL(location, uri).href;
      const { startTime, peerAddress } = report; // nothing else of the redirect itself stays in the report
      report = Object.assign(newReport(lease), { startTime, peerAddress });
      answer = await get(uri, lease, policy, report, signal);
    } else report.fetchStatus = -404;
  }
  clearTimeout(deadline);
  if (signal.aborted && signal.reason !== "deadline") {
    report = Object.assign(newReport(lease, -7000), { startTime: report.startTime });
  } else if (answer && isRobots) {
    await readRobots(report, answer);
  } else if (answer && isRedirect(report)) {
    const location = targetOf(answer);
    if (location) links = [{ ...candidate(lease, location, lease.uri, "R"), redirects: lease.redirects }];
  } else if (answer) {
    links = await findLinks(lease, policy, report.mediaType, answer);
  }
  report.fetchDuration = durationFromMs(Math.round(performance.now() - beganMs));
  return { report, links };
}

const isRedirect = (report: pb.Report) => report.fetchStatus >= 300 && report.fetchStatus < 400;

/** The target of a redirect. Node takes bytes for Latin-1; most are UTF-8. */
function targetOf({ headers: { location = "" } }: Answer): string {
  const bytes = Buffer.from(location, "latin1");
  return isUtf8(bytes) ? bytes.toString() : location;
}

/** Makes one request. Fills in the report; the answer, if there is one. */
async function get(
  uri: string,
  lease: pb.Lease,
  policy: FetchPolicy,
  report: pb.Report,
  signal: AbortSignal,
): Promise<Answer | undefined> {
  const isRobots = lease.purpose === pb.Purpose.ROBOTS;
  const headers: Record<string, string> = { "User-Agent": policy.userAgent, "Accept-Encoding": "identity" };
  if (lease.etag) headers["If-None-Match"] = lease.etag;
  if (lease.lastModified) headers["If-Modified-Since"] = lease.lastModified;
  const wire: Wire = { ready: false, address: "" };
  let response: http.IncomingMessage;
  try {
    response = await send(new URL(uri), headers, policy, signal, wire);
  } catch (error) {
    report.fetchStatus = fetchStatus(error, wire);
    return undefined;
  } finally {
    report.peerAddress ||= wire.address;
  }
  report.fetchStatus = response.statusCode!;
  report.mediaType = text(response.headers["content-type"]?.split(";")[0]?.trim().toLowerCase(), 256);
  report.retryAfterDuration = retryAfter(response.headers["retry-after"]);
  if (response.statusCode === 304) {
    report.digest = lease.lastDigest;
    response.destroy();
    return { headers: response.headers, body: Buffer.alloc(0) };
  }
  const limit = isRobots ? MAX_ROBOTS_BYTES : Number(policy.maxBytes);
  const keeps = isRobots ? MAX_ROBOTS_BYTES : isPage(report.mediaType) ? MAX_PAGE_BYTES : 0;
  const digest = createHash("sha1");
  const body: Buffer[] = [];
  const beganMs = performance.now();
  let bytes = 0;
  try {
    if (!isRobots && !isWanted(policy, report.mediaType, response.headers["content-length"])) {
      report.truncation = pb.Truncation.FILTER;
    } else {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        const piece = chunk.subarray(0, limit - bytes);
        digest.update(piece);
        if (bytes < keeps) body.push(piece.subarray(0, keeps - bytes));
        bytes += piece.length;
        if (policy.maxBytesPerSecond > 0n) {
          const dueMs = (bytes * 1000) / Number(policy.maxBytesPerSecond);
          await pause(dueMs - (performance.now() - beganMs), signal);
        }
        if (piece.length < chunk.length) {
          report.truncation = pb.Truncation.LENGTH;
          break;
        }
      }
      // To Node, a body without a length is complete even so.
      if (signal.aborted || wire.problem instanceof Silent) throw wire.problem;
    }
  } catch (error) {
    const status = fetchStatus(error, wire);
    if (!signal.aborted && status === -10 && bytes === 0) {
      report.fetchStatus = status; // chunks that are invalid from the first
      return undefined;
    }
    const isLate = signal.aborted || status === -4; // the deadline, or silence
    report.truncation = isLate ? pb.Truncation.TIME : pb.Truncation.DISCONNECT;
  } finally {
    response.destroy();
  }
  report.bodyBytes = BigInt(bytes);
  if (report.truncation !== pb.Truncation.FILTER) report.digest = `sha1:${base32(digest.digest())}`;
  if (report.truncation === pb.Truncation.UNSPECIFIED || report.truncation === pb.Truncation.LENGTH) {
    report.etag = text(response.headers.etag, 1024); // otherwise the next visit must get the rest
    report.lastModified = text(response.headers["last-modified"], 1024);
  }
  return { headers: response.headers, body: Buffer.concat(body) };
}

/** Takes a robots.txt into its report. One that broke off is not there: it must not allow too much. */
async function readRobots(report: pb.Report, answer: Answer): Promise<void> {
  if (report.fetchStatus < 200 || report.fetchStatus > 299) return;
  if (report.truncation === pb.Truncation.TIME) report.fetchStatus = -4;
  else if (report.truncation === pb.Truncation.DISCONNECT) report.fetchStatus = -3;
  else {
    const body = await decode(answer, MAX_ROBOTS_BYTES);
    if (body === undefined) report.fetchStatus = -10;
    else if (body.length > 0) report.robotsBody = new Uint8Array(body);
    else report.robotsEmpty = true;
  }
}

/** Undoes gzip, which some servers send unasked. A gzip that was cut is decoded as far as it goes. */
async function decode({ headers, body }: Answer, limit: number): Promise<Buffer | undefined> {
  const coding = headers["content-encoding"]?.toLowerCase() ?? "identity";
  if (coding === "identity") return body;
  if (coding !== "gzip" && coding !== "x-gzip") return undefined;
  const decoded: Buffer[] = [];
  let bytes = 0;
  try {
    const gunzip = zlib.createGunzip({ finishFlush: zlib.constants.Z_SYNC_FLUSH });
    for await (const chunk of Readable.from([body]).pipe(gunzip)) {
      decoded.push(chunk);
      if ((bytes += chunk.length) >= limit) break;
    }
  } catch {
    return undefined; // it is no gzip
  }
  return Buffer.concat(decoded).subarray(0, limit);
}

const isPage = (mediaType: string) => mediaType === "text/html" || mediaType === "application/xhtml+xml";

function isWanted(policy: FetchPolicy, mediaType: string, length?: string): boolean {
  const type = mediaType || "application/octet-stream";
  const matches = (one: string) => one === type || (one.endsWith("/*") && type.startsWith(one.slice(0, -1)));
  return (
    length === "0" ||
    (!policy.rejectMediaTypes.some(matches) &&
      (policy.acceptMediaTypes.length === 0 || policy.acceptMediaTypes.some(matches)) &&
      (policy.maxContentLength === 0n || Number(length ?? 0) <= policy.maxContentLength))
  );
}

function retryAfter(header = ""): Duration | undefined {
  const isSeconds = /^\d{1,9}$/.test(header);
  const waitMs = isSeconds ? Number(header) * 1000 : Math.max(0, Date.parse(header) - Date.now());
  return Number.isNaN(waitMs) ? undefined : durationFromMs(waitMs);
}

/** A header's value; empty if it is too long. */
const text = (value = "", limit: number) => (Buffer.byteLength(value) > limit ? "" : value);

function base32(bytes: Buffer): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return bits.match(/.{5}/g)!.map((five) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[parseInt(five, 2)]).join("");
}

// ---- links ----

function candidate(lease: pb.Lease, uri: string, base: string, hop: string): pb.Candidate {
  const found = { uri: text(uri, 8192), base: text(base, 8192), path: lease.path + hop };
  return create(pb.CandidateSchema, { ...found, via: lease.uri, source: lease.source });
}

/** Finds the links of a page. The frontier resolves and judges them. */
async function findLinks(
  lease: pb.Lease,
  policy: FetchPolicy,
  mediaType: string,
  answer: Answer,
): Promise<pb.Candidate[]> {
  const body = isPage(mediaType) ? await decode(answer, MAX_PAGE_BYTES) : undefined;
  if (!body?.length) return [];
  const { maxLinks = 0, obeyRobotsMeta, obeyNofollow } = policy.extract ?? {};
  const forbids = (rules: unknown) => obeyRobotsMeta === true && /\b(nofollow|none)\b/i.test(`${rules}`);
  let nofollow = forbids(answer.headers["x-robots-tag"]);
  let base: string | undefined;
  const found = new Map<string, string>(); // the hop, by URI
  const add = (uri: string | undefined, hop: string) => {
    const whole = uri?.trim().replace(/#.*/s, "");
    if (whole !== undefined && !found.has(whole) && found.size < maxLinks) found.set(whole, hop);
  };
  const page = new Parser({
    onopentag(tag, { href, src, srcset, rel = "", name = "", content }) {
      const words = rel.toLowerCase().split(/\s+/);
      if (tag === "base" && href && URL.canParse(href, lease.uri)) base ??= new URL(href, lease.uri).href;
      else if (tag === "meta" && ["robots", policy.productToken.toLowerCase()].includes(name.toLowerCase()))
        nofollow ||= forbids(content);
      else if (tag === "link") add(href, words.includes("stylesheet") || words.includes("icon") ? "E" : "L");
      else if (tag === "a" || tag === "area") {
        if (!obeyNofollow || !words.includes("nofollow")) add(href, "L");
      } else if (["img", "script", "iframe", "frame", "embed", "source", "audio", "video"].includes(tag)) {
        add(src, "E");
        for (const each of srcset?.split(",") ?? []) add(each.trim().split(/\s/)[0], "E");
      }
    },
  });
  page.end(decodeText(body, answer.headers["content-type"]));
  return [...found]
    .filter(([, hop]) => !nofollow || hop !== "L")
    .map(([uri, hop]) => candidate(lease, uri, base ?? lease.uri, hop));
}

function decodeText(body: Buffer, contentType = ""): string {
  const named = /charset=["']?([\w-]+)/i;
  const charset = named.exec(contentType) ?? named.exec(body.toString("latin1", 0, 1024));
  try {
    return new TextDecoder(charset?.[1]).decode(body);
  } catch {
    return body.toString(); // no such charset
  }
}

// ---- connections ----

/** The connection of one request. `problem` is the first; what a stream says after that is less exact. */
type Wire = { ready: boolean; address: string; problem?: Error };

/**
 * Sends a request, over a connection of its own, to an address that the crawl allows. Redirects are not
 * followed. Resolves when the head of the answer is there.
 */
function send(
  uri: URL,
  headers: Record<string, string>,
  policy: FetchPolicy,
  signal: AbortSignal,
  wire: Wire,
): Promise<http.IncomingMessage> {
  const isAllowed = addressRule(policy.allowedAddresses);
  const literal = uri.hostname.replace(/^\[|\]$/g, "");
  if (net.isIP(literal) && !isAllowed(literal)) throw new Refused(); // no lookup is made for these
  // The addresses that this answers are the ones that the socket connects to.
  const lookup: net.LookupFunction = (name, options, answer) =>
    dns.lookup(name, { ...options, all: true }, (error, found) => {
      const addresses = (found ?? []).filter(({ address }) => isAllowed(address));
      if (error || !addresses[0]) answer(error ?? new Refused(), "");
      else if (options.all) answer(null, addresses);
      else answer(null, addresses[0].address, addresses[0].family);
    });
  return new Promise((resolve, reject) => {
    const { request } = uri.protocol === "https:" ? https : http;
    const sent = request(uri, { headers, signal, lookup, agent: false, maxHeaderSize: 64 << 10 }, resolve);
    const giveUp = () => sent.destroy((wire.problem ??= new Silent()));
    const connecting = setTimeout(giveUp, milliseconds(policy.connectTimeout));
    sent.on("socket", (socket) => {
      socket.on(uri.protocol === "https:" ? "secureConnect" : "connect", () => {
        clearTimeout(connecting);
        Object.assign(wire, { ready: true, address: socket.remoteAddress });
        socket.setTimeout(milliseconds(policy.readTimeout), giveUp);
      });
    });
    sent.on("close", () => clearTimeout(connecting));
    sent.on("error", (error) => reject((wire.problem ??= error)));
    sent.end();
  });
}

/**
 * The frontier's code for an error. Errors before there is a connection, TLS included, mean that there was
 * none.
 */
function fetchStatus(error: unknown, wire: Wire): number {
  const problem = (wire.problem ?? error) as NodeJS.ErrnoException;
  const { code = "", syscall } = problem;
  if (problem instanceof Refused || /^ERR_(INVALID|UNESCAPED)/.test(code)) return -7;
  if (syscall === "getaddrinfo") return -1;
  if (!wire.ready) return -2;
  if (problem instanceof Silent || code === "ABORT_ERR") return -4;
  if (code === "ECONNRESET" || code === "EPIPE" || code === "HPE_INVALID_EOF_STATE") return -3;
  return code.startsWith("HPE_") ? -10 : -5; // HPE: Node's parser could not read the answer
}

// Networks that no page of the public web lies in. Those of IPv6 lie outside 2000::/3 or are listed here.
const special = blockList(
  "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12 " +
    "192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 " +
    "224.0.0.0/3 " +
    "2001::/23 2001:db8::/32 2002::/16 3ffe::/16 3fff::/20",
);
const loopback = blockList("127.0.0.0/8 ::1/128");
const unicast6 = blockList("2000::/3");

function blockList(networks: string): net.BlockList {
  const list = new net.BlockList();
  for (const network of networks.split(" ").filter(Boolean)) {
    const [address = "", bits] = network.split("/");
    const family = net.isIPv6(address) ? "ipv6" : "ipv4";
    list.addSubnet(address, Number(bits ?? (family === "ipv6" ? 128 : 32)), family);
  }
  return list;
}

function addressRule(rules: string[]): (address: string) => boolean {
  const networks = blockList(rules.filter((rule) => rule !== "public" && rule !== "loopback").join(" "));
  return (address) => {
    const family = net.isIPv6(address) ? "ipv6" : "ipv4";
    const isGlobal = family === "ipv4" || unicast6.check(address, family);
    return (
      (rules.includes("public") && isGlobal && !special.check(address, family)) ||
      (rules.includes("loopback") && loopback.check(address, family)) ||
      networks.check(address, family)
    );
  };
}

// ---- a life ----

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.once(signal, () => ending.abort()); // the next one kills
}
ending.signal.addEventListener("abort", () => changes.emit("change"));
const unlessAborted = (signal: AbortSignal, problem: string) => (error: unknown) => {
  if (signal.aborted) return;
  console.error(`${problem}: ${error}`);
  process.exitCode = 1;
  ending.abort();
};
const beating = beat().catch(unlessAborted(leaving.signal, "the frontier refuses heartbeats"));
await feed().catch(unlessAborted(ending.signal, "the frontier gives no leases"));
while (held.size > 0) await once(changes, "change"); // finish what is started
leaving.abort();
await beating;
await frontier.heartbeat({ ...node, leaving: true }, { timeoutMs: 5000 }).catch(() => {}); // it will notice
process.exit();
