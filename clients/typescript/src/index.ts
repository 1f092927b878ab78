/**
 * A client of a troupe decision server over fetch. It runs in Node from version 18, in browsers and in workers, and needs
 * nothing else. The types of bodies and answers are made of the server's own OpenAPI document.
 *
 *     const client = new Client("http://127.0.0.1:8080", { key: process.env.TROUPE_KEY });
 *     const d = await client.decide("news", { context: { city: "Oslo" }, actions: [{ id: "a" }, { id: "b" }] });
 *     await client.reward(d.event_id, 1);
 *
 * A call is repeated when the server is busy, restarting or out of reach. That is safe: a decision has an idempotency key, so
 * that the second attempt gets the decision of the first, and a reward has a key, so that it counts once.
 *
 * A model that went to another server (troupe move) is followed there, in Node: the first call costs a redirect, and the client
 * remembers it. Both servers must accept the key. Browsers do not tell a program where a redirect leads.
 */
import type { components } from "./schema.js";

type Schemas = components["schemas"];
export type Action = Schemas["Action"];
export type Config = Schemas["Config"];
export type ConfigPatch = Schemas["ConfigPatch"];
export type DecideRequest = Schemas["DecideRequest"];
export type Decision = Schemas["Decision"];
export type BatchAnswer = Schemas["BatchAnswer"];
/** An entry of a list: its propensity is the exact probability of this action at this position. */
export type ListEntry = Schemas["ListEntry"];
export type Slot = Schemas["Slot"];
export type Event = Schemas["EventView"];
export type Model = Schemas["Model"];
export type RewardAnswer = Schemas["RewardAnswer"];
export type RewardItem = Schemas["RewardItemRequest"];
export type RewardResult = Schemas["RewardResult"];
export type ProblemBody = Schemas["Problem"];

/** An answer that says no. code never changes, detail is for people, field names what is wrong in the request. */
export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly field: string | undefined;
  /** The call may have been recorded: repeat it as it was, with the same key. */
  readonly unknown: boolean;
  /** Milliseconds that the server asks to wait, 0 for none. */
  readonly retryAfter: number;
  /** Of the code moved: the server that has the model. */
  readonly movedTo: string | undefined;
  /** What the server sent. */
  readonly body: Partial<ProblemBody>;

  constructor(status: number, body: Partial<ProblemBody>, retryAfter: number) {
    super(`${status} ${body.code ?? "http"}: ${body.field ? body.field + ": " : ""}${body.detail ?? body.title ?? ""}`);
    this.name = "Problem";
    this.status = status;
    this.code = body.code ?? "http";
    this.detail = body.detail ?? "";
    this.field = body.field;
    this.unknown = body.unknown_outcome ?? false;
    this.retryAfter = retryAfter;
    this.movedTo = body.moved_to;
    this.body = body;
  }
}

/** No answer came. unknown is false where nothing was sent. */
export class Unreachable extends Error {
  readonly unknown: boolean;

  constructor(cause: unknown, unknown: boolean) {
    super(`the server does not answer: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.name = "Unreachable";
    this.unknown = unknown;
  }
}

export interface Options {
  /** An API key, troupe_ID_SECRET. */
  key?: string | undefined;
  /** How often a call is tried at one address, 5 by default; with several addresses as often as patience allows. */
  tries?: number;
  /** Milliseconds for which a call is repeated at several addresses, 30,000 by default. */
  patience?: number;
  /** Milliseconds that an attempt may take, 10,000 by default. */
  timeout?: number;
  /** Does the requests in place of the global fetch. */
  fetch?: typeof fetch;
}

export interface Call {
  /** Makes repetitions harmless; the client makes one where it is absent. */
  key?: string;
  signal?: AbortSignal;
}

/** Which entry of a list a reward is for, by one of position, slot and action, and how many positions were on the screen. */
export interface OfList {
  /** From 0. */
  position?: number;
  /** Its id. */
  slot?: string;
  /** Its id. */
  action?: string;
  /** Positions from this one on were not on the screen: they teach nothing and get no default. */
  shown?: number;
}

const again = new Set([429, 502, 503, 504, 507]);
/** Codes of Node's errors of a connection that was not made. */
const unsent = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"]);

/** How often one call is sent on. */
const mostHops = 4;
/** How many writers of event ids are remembered. */
const mostWriters = 4096;

/** Which models went to other servers, and which events these decided. */
class Away {
  readonly #models = new Map<string, string>();
  readonly #events = new Map<string, string>(); // by the beginning of their ids, which names the writer

  /** The map and the key of what a path is about. */
  #subject(path: string): [Map<string, string>, string] | undefined {
    const [, kind, name] = /^\/v1\/(models|events)\/([^:/?]*)/.exec(path) ?? [];
    if (!name) return undefined;
    return kind === "models" ? [this.#models, name] : [this.#events, name.slice(0, 16)];
  }

  of(path: string): string | undefined {
    const subject = this.#subject(path);
    return subject && subject[0].get(subject[1]);
  }

  note(path: string, to: string): void {
    const subject = this.#subject(path);
    if (subject?.[0] === this.#models) this.#models.set(subject[1], to);
  }

  forget(path: string): boolean {
    const subject = this.#subject(path);
    return subject !== undefined && subject[0].delete(subject[1]);
  }

  decided(path: string, event: string): void {
    const to = this.of(path);
    if (to === undefined) return;
    if (this.#events.size >= mostWriters) this.#events.clear();
    this.#events.set(event.slice(0, 16), to);
  }
}

export class Client {
  readonly #away = new Away();
  readonly #at: string[];
  readonly #key: string | undefined;
  readonly #tries: number;
  readonly #patience: number;
  readonly #timeout: number;
  readonly #fetch: typeof fetch;
  #now = 0;

  /** baseUrl is http://HOST:PORT, or those of the nodes of a cluster: the first one that answers is kept. */
  constructor(baseUrl: string | readonly string[], options: Options = {}) {
    this.#at = (typeof baseUrl === "string" ? [baseUrl] : [...baseUrl]).map((text) => {
      const url = new URL(text);
      if ((url.protocol !== "http:" && url.protocol !== "https:") || url.search || url.hash) {
        throw new TypeError(`baseUrl is ${JSON.stringify(text)}, expected http://HOST:PORT or https://HOST:PORT`);
      }
      return url.origin + url.pathname.replace(/\/+$/, "");
    });
    if (this.#at.length === 0) throw new TypeError("baseUrl is empty, expected an address");
    this.#key = options.key;
    this.#tries = options.tries ?? 5;
    this.#patience = options.patience ?? 30_000;
    this.#timeout = options.timeout ?? 10_000;
    this.#fetch = options.fetch ?? ((...args) => fetch(...args));
  }

  /** Makes a model. */
  createModel(config: Config, call: Call = {}): Promise<Model> {
    return this.#call("POST", "/v1/models", config, {}, false, call);
  }

  /** Reads a model. */
  model(name: string, call: Call = {}): Promise<Model> {
    return this.#call("GET", `/v1/models/${encodeURIComponent(name)}`, undefined, {}, true, call);
  }

  /** Changes what the patch names; null takes a field back to its default. version is the config_version that was read. */
  changeModel(name: string, patch: ConfigPatch, version?: number, call: Call = {}): Promise<Model> {
    const match = version === undefined ? "*" : `"${version}"`;
    return this.#call("PATCH", `/v1/models/${encodeURIComponent(name)}`, patch, { "If-Match": match }, version === undefined, call);
  }

  /** Deletes a model. */
  async deleteModel(name: string, call: Call = {}): Promise<void> {
    await this.#call("DELETE", `/v1/models/${encodeURIComponent(name)}`, undefined, {}, false, call);
  }

  /**
   * Chooses an action; with numbers, numbers; with choose or slots a list, whose entries are in list. The decision was durable before it
   * was sent.
   */
  async decide(model: string, request: DecideRequest, call: Call = {}): Promise<Decision> {
    const headers = { "Idempotency-Key": call.key ?? newKey() };
    const path = `/v1/models/${encodeURIComponent(model)}:decide`;
    const decision = await this.#call<Decision>("POST", path, request, headers, true, call);
    if (!decision.repeated) this.#away.decided(path, decision.event_id); // one that is may be of before the move
    return decision;
  }

  /** Decides many requests on one state. Each answer has a decision or a problem. */
  async decideBatch(model: string, requests: DecideRequest[], call: Call = {}): Promise<BatchAnswer[]> {
    const headers = { "Idempotency-Key": call.key ?? newKey() };
    const path = `/v1/models/${encodeURIComponent(model)}:decideBatch`;
    const results = (await this.#call<Schemas["BatchAnswers"]>("POST", path, { requests }, headers, true, call)).results ?? [];
    for (const r of results) if (r.decision && !r.decision.repeated) this.#away.decided(path, r.decision.event_id);
    return results;
  }

  /** Pays for a decision, or for one entry of a list, and says what it cost where that is known. */
  reward(event: string, value: number, call: Call & OfList & { cost?: number } = {}): Promise<RewardResult> {
    const { key, signal, ...more } = call;
    return this.#reward(event, { ...more, value }, call);
  }

  /** Pays for each position of a list, from the top. The model then learns at once; positions of the answer has what came of each. */
  rewardList(event: string, values: number[], call: Call & { shown?: number } = {}): Promise<RewardResult> {
    return this.#reward(event, call.shown === undefined ? { values } : { values, shown: call.shown }, call);
  }

  /** Pays for a decision of a model with rewards: one value or more by name. What is not named stays as it is. */
  rewardNamed(event: string, reward: Record<string, number>, call: Call & { cost?: number } = {}): Promise<RewardResult> {
    return this.#reward(event, call.cost === undefined ? { reward } : { reward, cost: call.cost }, call);
  }

  /** Says what a decision cost, without a reward. */
  cost(event: string, cost: number, call: Call = {}): Promise<RewardResult> {
    return this.#reward(event, { cost }, call);
  }

  #reward(event: string, body: Schemas["RewardRequest"], call: Call): Promise<RewardResult> {
    return this.#call("POST", `/v1/events/${encodeURIComponent(event)}:reward`, { ...body, key: call.key ?? newKey() }, {}, true, call);
  }

  /**
   * Pays for many decisions, at most 10,000. Each answer has a result or a problem. A server takes as many at a time as one
   * request may keep it busy with; those that it did not take (429) are sent again, as long as each call takes some.
   */
  async rewardBatch(rewards: RewardItem[], call: Call = {}): Promise<RewardAnswer[]> {
    const items = rewards.map((r) => ({ ...r, key: r.key ?? newKey() }));
    const answers: RewardAnswer[] = [];
    let left = items.map((_, i) => i);
    for (;;) {
      const body = { rewards: left.map((i) => items[i]!) };
      const results = (await this.#call<Schemas["RewardAnswers"]>("POST", "/v1/rewards:batch", body, {}, true, call)).results ?? [];
      for (const [k, r] of results.entries()) { // one by one, what other servers have: each may be at another one
        const item = items[left[k]!]!;
        const code = r.problem?.code;
        const elsewhere = code === "moved" || (code === "bad_event_id" && this.#away.of(`/v1/events/${item.event_id}`) !== undefined);
        answers[left[k]!] = elsewhere ? await this.#alone(item, call) : r;
      }
      const again = left.filter((_, k) => results[k]?.problem?.status === 429);
      if (again.length === 0 || again.length === left.length) return answers;
      left = again;
    }
  }

  /** Sends a reward of a batch by itself. */
  async #alone({ event_id, ...body }: RewardItem, call: Call): Promise<RewardAnswer> {
    try {
      return { result: await this.#call<RewardResult>("POST", `/v1/events/${encodeURIComponent(event_id)}:reward`, body, {}, true, call) };
    } catch (error) {
      if (error instanceof Problem) return { problem: error.body as ProblemBody };
      throw error;
    }
  }

  /** Makes a deferred decision count. */
  activate(event: string, call: Call = {}): Promise<Schemas["ActivateResult"]> {
    return this.#call("POST", `/v1/events/${encodeURIComponent(event)}:activate`, undefined, {}, true, call);
  }

  /** Reads what became of a decision. */
  event(id: string, call: Call = {}): Promise<Event> {
    return this.#call("GET", `/v1/events/${encodeURIComponent(id)}`, undefined, {}, true, call);
  }

  /** Does one call, again and again while that helps. safe: it may be repeated when its outcome is unknown. */
  async #call<T>(method: string, path: string, body: unknown, headers: Record<string, string>, safe: boolean, call: Call): Promise<T> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const began = Date.now();
    let failed: Problem | Unreachable | undefined;
    for (let attempt = 1; ; attempt++) {
      let pause = Infinity;
      for (let i = 0; i < this.#at.length; i++) {
        const at = this.#now;
        try {
          return await this.#follow<T>(this.#at[at]!, method, path, text, headers, call.signal);
        } catch (error) {
          if (!(error instanceof Unreachable) && !(error instanceof Problem && again.has(error.status))) throw error;
          if (failed === undefined || !failed.unknown || error.unknown) failed = error; // what may have been recorded stays so
          if ((error.unknown && !safe) || call.signal?.aborted) throw failed;
          pause = Math.min(pause, error instanceof Problem ? error.retryAfter : 0);
          if (this.#now === at) this.#now = (at + 1) % this.#at.length;
        }
      }
      const several = this.#at.length > 1;
      const late = Date.now() - began >= this.#patience;
      if (failed instanceof Problem && failed.code === "leaving" && this.#tries > 1 && !late) attempt = Math.min(attempt, 2); // a move takes about a second
      else if (several ? late : attempt >= this.#tries) throw failed;
      const longest = Math.min(50 * 2 ** Math.min(attempt - 1, 20), several ? 500 : 5000);
      await wait(Math.max(pause, Math.random() * longest), call.signal);
    }
  }

  /** Calls the server that has what a path is about: base, or where its model went. */
  async #follow<T>(base: string, method: string, path: string, body: string | undefined, extra: Record<string, string>,
    signal: AbortSignal | undefined): Promise<T> {
    let at = this.#away.of(path) ?? base;
    for (let hops = 0; ; hops++) {
      try {
        return await this.#once<T>(at, method, path, body, extra, signal);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        const to = error.code === "moved" ? error.movedTo?.replace(/\/+$/, "") : undefined;
        const clear = to !== undefined && to !== base && new URL(at).protocol === "https:" && new URL(to).protocol !== "https:";
        if (to !== undefined && hops < mostHops && !clear) { // no key in the clear
          at = to;
          if (to === base) this.#away.forget(path);
          else this.#away.note(path, to);
        } else if ((error.code === "not_found" || error.code === "bad_event_id") && at !== base && this.#away.forget(path)) {
          at = base;
        } else {
          throw error;
        }
      }
    }
  }

  async #once<T>(base: string, method: string, path: string, body: string | undefined, extra: Record<string, string>,
    signal: AbortSignal | undefined): Promise<T> {
    const headers: Record<string, string> = { ...extra };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (this.#key !== undefined) headers["Authorization"] = `Bearer ${this.#key}`;
    const stop = new AbortController();
    const leave = () => stop.abort(signal?.reason);
    signal?.addEventListener("abort", leave, { once: true });
    if (signal?.aborted) leave();
    const timer = setTimeout(() => stop.abort(new Error(`no answer in ${this.#timeout} ms`)), this.#timeout);
    try {
      let answer: Response, text: string;
      try {
        // A redirect is an answer: fetch would follow it without the key.
        const init: RequestInit = { method, headers, signal: stop.signal, redirect: "manual" };
        if (body !== undefined) init.body = body;
        answer = await this.#fetch(base + path, init);
        text = await answer.text();
      } catch (cause) {
        throw new Unreachable(cause, !unsent.has(codeOf(cause)));
      }
      if (answer.ok) return (text === "" ? undefined : JSON.parse(text)) as T;
      let problem: Partial<ProblemBody>;
      try {
        problem = JSON.parse(text) as Partial<ProblemBody>;
        if (typeof problem.code !== "string") throw new TypeError("no problem");
      } catch { // of a proxy, which does not know the outcome where it gave up
        problem = { detail: answer.statusText || `status ${answer.status}`, unknown_outcome: answer.status === 502 || answer.status === 504 };
      }
      const after = Number(answer.headers.get("Retry-After") ?? 0);
      throw new Problem(answer.status, problem, after > 0 && after < 3600 ? after * 1000 : 0);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", leave);
    }
  }
}

/** The code of an error of a connection, in Node; "" elsewhere, where it is not told. */
function codeOf(error: unknown): string {
  for (let e: unknown = error; e instanceof Error; e = e.cause) {
    const code = (e as { code?: unknown }).code;
    if (typeof code === "string") return code;
  }
  return "";
}

/** Makes an idempotency key. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

function wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", left, { once: true });
    function done() {
      signal?.removeEventListener("abort", left);
      resolve();
    }
    function left() {
      clearTimeout(timer);
      reject(signal?.reason);
    }
  });
}
