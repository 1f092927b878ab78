// Plays the client against a server: node test/play.mjs URL KEY, after npm run build.
import assert from "node:assert/strict";
import http from "node:http";
import { Client, Problem, Unreachable } from "../dist/index.js";

const [, , url, key] = process.argv;
const client = new Client(url, { key });

/** A stub of a server: answers(number of the request, request) returns [status, body, headers] or nothing, which cuts it off. */
async function stub(answers, use) {
  const seen = [];
  const server = http.createServer((request, response) => {
    let body = "";
    request.on("data", (part) => (body += part));
    request.on("end", () => {
      seen.push({ method: request.method, path: request.url, headers: request.headers, body });
      request.text = body;
      const answer = answers(seen.length, request);
      if (!answer) return request.socket.destroy();
      const [status, json, headers = {}] = answer;
      response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(json));
    });
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  try {
    return await use(`http://127.0.0.1:${server.address().port}`, seen);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const problem = (code, more = {}) => ({ type: `/docs#${code}`, title: code, status: 503, code, ...more });

const plays = {
  async "a model learns"() {
    const model = await client.createModel({ id: "ts", reward: { min: 0, max: 1 } });
    assert.equal(model.name, "ts");
    assert.equal(model.config.reward.default, "auto");
    let good = 0;
    for (let i = 0; i < 120; i++) {
      const d = await client.decide("ts", { context: { day: i % 7 }, actions: [{ id: "a" }, { id: "b" }] });
      assert.ok(d.durable && d.propensity.num / d.propensity.den > 0);
      const r = await client.reward(d.event_id, d.action.id === "b" ? 1 : 0);
      assert.equal(r.status, "accepted");
      if (i >= 80 && d.action.id === "b") good++;
    }
    assert.ok(good > 20, `${good} of 40`);
    const changed = await client.changeModel("ts", { floor: 0.05 }, (await client.model("ts")).config_version);
    assert.equal(changed.config.floor, 0.05);
  },
  async "a key belongs to one decision, also in a batch"() {
    const request = { actions: [{ id: "a" }, { id: "b" }] };
    const first = await client.decide("ts", request, { key: "k1" });
    const second = await client.decide("ts", request, { key: "k1" });
    assert.equal(second.event_id, first.event_id);
    assert.ok(second.repeated);
    const batch = await client.decideBatch("ts", [request, { actions: [] }, { mode: "frozen", ...request }], { key: "k2" });
    const same = await client.decideBatch("ts", [request, { actions: [] }, { mode: "frozen", ...request }], { key: "k2" });
    assert.equal(batch.length, 3);
    assert.equal(batch[1].problem.code, "invalid");
    assert.equal(same[2].decision.event_id, batch[2].decision.event_id);
    assert.equal(batch[0].decision.basis_seq, batch[2].decision.basis_seq);
    const paid = await client.rewardBatch([{ event_id: batch[0].decision.event_id, value: 1 }, { event_id: "xx", value: 1 }]);
    assert.equal(paid[0].result.status, "accepted");
    assert.equal(paid[1].problem.code, "bad_event_id");
    assert.equal((await client.event(batch[0].decision.event_id)).value, 1);
  },
  async "lists: entries, and rewards by position, slot, action and values"() {
    await client.createModel({ id: "lists", reward: { rule: "first" } });
    const actions = ["a", "b", "c", "d"].map((id) => ({ id }));
    const of = async (d) => (await client.event(d.event_id)).positions;
    let d = await client.decide("lists", { choose: 3, actions }, { key: "l1" });
    assert.deepEqual(d.list.map((e) => e.position), [0, 1, 2]);
    assert.equal(new Set(d.list.map((e) => e.id)).size, 3);
    assert.ok(d.list.every((e) => actions[e.index].id === e.id && e.propensity.num > 0 && e.propensity.num <= e.propensity.den));
    assert.equal(d.action, undefined);
    const again = await client.decide("lists", { choose: 3, actions }, { key: "l1" });
    assert.ok(again.repeated);
    assert.deepEqual(again.list, d.list);
    let paid = await client.rewardList(d.event_id, [0, 1, 0], { shown: 2 });
    assert.deepEqual(paid.positions.map((p) => p.status), ["accepted", "accepted", "ignored"]);
    paid = await client.rewardList(d.event_id, [1, 1, 0]);
    assert.deepEqual(paid.positions.slice(0, 2).map((p) => p.status), ["duplicate", "duplicate"]);
    assert.deepEqual((await of(d)).map((e) => e.value), [0, 1, undefined]);

    d = await client.decide("lists", { slots: [{ id: "hero" }, { id: "side", exclude: ["d"] }], actions });
    assert.deepEqual(d.list.map((e) => e.slot), ["hero", "side"]);
    assert.notEqual(d.list[1].id, "d");
    assert.equal((await client.reward(d.event_id, 1, { slot: "side" })).status, "accepted");
    assert.equal((await client.reward(d.event_id, 1, { position: 1 })).status, "duplicate");
    assert.equal((await client.reward(d.event_id, 0, { action: d.list[0].id, key: "r1" })).status, "accepted");
    assert.deepEqual((await of(d)).map((e) => e.value), [0, 1]);

    d = await client.decide("lists", { slots: [{ id: "text", actions: [{ id: "t1" }, { id: "t2" }] }, { id: "image", actions: [{ id: "i1" }, { id: "i2" }] }] });
    assert.ok(d.list[0].id.startsWith("t") && d.list[1].id.startsWith("i"));
    const batch = await client.rewardBatch([{ event_id: d.event_id, position: 0, value: 1 }, { event_id: d.event_id, slot: "image", value: 0 }]);
    assert.deepEqual(batch.map((r) => r.result.status), ["accepted", "accepted"]);
    for (const [field, bad] of [["position", { position: 2 }], ["slot", { slot: "foot" }], ["action", { action: "a" }], ["value", {}]]) {
      await assert.rejects(client.reward(d.event_id, 1, bad), (e) => e instanceof Problem && e.status === 422 && e.field === field, field);
    }
    await assert.rejects(client.rewardList(d.event_id, [1]), (e) => e.status === 422 && e.field === "values");
    await assert.rejects(client.decide("lists", { choose: 5, actions }), (e) => e.status === 422 && e.field === "choose");

    await client.createModel({ id: "whole", list: { reward: "list" } });
    d = await client.decide("whole", { choose: 2, actions });
    assert.equal((await client.reward(d.event_id, 3.5)).status, "accepted");
    assert.equal((await client.event(d.event_id)).value, 3.5);
  },
  async "the body of a reward has what the call names, and nothing else"() {
    await stub(() => [200, { status: "accepted", seq: 1 }], async (at, seen) => {
      const c = new Client(at), signal = new AbortController().signal;
      await c.reward("e", 1, { position: 0, shown: 2, cost: 3, key: "k", signal });
      await c.rewardList("e", [1, 0], { shown: 0, key: "k" });
      await c.cost("e", 2, { key: "k" });
      await c.rewardNamed("e", { click: 1, revenue: 12.5 }, { cost: 3, key: "k" });
      assert.deepEqual(seen.map((s) => JSON.parse(s.body)), [{ position: 0, shown: 2, cost: 3, value: 1, key: "k" }, { values: [1, 0], shown: 0, key: "k" }, { cost: 2, key: "k" }, { reward: { click: 1, revenue: 12.5 }, cost: 3, key: "k" }]);
    });
  },
  async "rewards that a server does not take are sent again with their keys"() {
    let takes = 3;
    const answer = (text) => ({ results: JSON.parse(text).rewards.map((r, i) => (i < takes
      ? { result: { status: "accepted", seq: Number(r.event_id) } } : { problem: problem("too_busy", { status: 429 }) })) });
    await stub((_, request) => [200, answer(request.text)], async (at, seen) => {
      const rewards = Array.from({ length: 10 }, (_, i) => ({ event_id: `${i}`, value: 1 }));
      const paid = await new Client(at).rewardBatch(rewards);
      assert.deepEqual(paid.map((p) => p.result.seq), rewards.map((_, i) => i));
      assert.deepEqual(seen.map((s) => JSON.parse(s.body).rewards.length), [10, 7, 4, 1]);
      assert.deepEqual(JSON.parse(seen[0].body).rewards[3], JSON.parse(seen[1].body).rewards[0]);
      takes = 0;
      assert.equal((await new Client(at).rewardBatch(rewards))[9].problem.status, 429);
      assert.equal(seen.length, 5);
    });
  },
  async "a problem has its field"() {
    await assert.rejects(client.reward((await client.decide("ts", { actions: [{ id: "a" }] })).event_id, 7),
      (e) => e instanceof Problem && e.status === 422 && e.field === "value" && !e.unknown);
    await assert.rejects(client.model("nothing"), (e) => e instanceof Problem && e.code === "not_found");
    await assert.rejects(new Client(url, { key: "troupe_x_y" }).model("ts"), (e) => e instanceof Problem && e.status === 401);
  },
  async "a busy server is asked again, with the same key"() {
    await stub((n) => (n < 3 ? [503, problem("unavailable", { unknown_outcome: true })] : [200, { event_id: "e" }]), async (at, seen) => {
      assert.equal((await new Client(at).decide("m", {})).event_id, "e");
      assert.equal(seen.length, 3);
      assert.ok(seen[0].headers["idempotency-key"]);
      assert.equal(new Set(seen.map((s) => s.headers["idempotency-key"])).size, 1);
    });
    await stub((n) => (n < 2 ? undefined : [200, { status: "accepted" }]), async (at, seen) => {
      await new Client(at).reward("e", 1);
      assert.equal(JSON.parse(seen[0].body).key, JSON.parse(seen[1].body).key);
    });
  },
  async "what may have happened is not repeated where that would do it twice"() {
    await stub(() => undefined, async (at, seen) => {
      await assert.rejects(new Client(at).createModel({ id: "m" }), (e) => e instanceof Unreachable && e.unknown);
      assert.equal(seen.length, 1);
    });
  },
  async "Retry-After is kept, 409 is not repeated"() {
    await stub((n) => (n < 2 ? [429, problem("too_busy"), { "Retry-After": "1" }] : [200, {}]), async (at) => {
      const began = Date.now();
      await new Client(at).model("m");
      assert.ok(Date.now() - began >= 990);
    });
    await stub(() => [409, problem("model_failed")], async (at, seen) => {
      await assert.rejects(new Client(at).decide("m", {}), (e) => e.code === "model_failed");
      assert.equal(seen.length, 1);
    });
  },
  async "a redirect is an error, and the key goes nowhere else"() {
    await stub(() => [200, {}], async (other, others) => {
      await stub(() => [307, {}, { Location: `${other}/v1/models/m` }], async (at) => {
        await assert.rejects(new Client(at, { key: "troupe_a_b" }).model("m"), (e) => e instanceof Problem && (e.status === 307 || e.status === 0));
      });
      assert.equal(others.length, 0);
    });
  },
  async "another node answers when one is gone"() {
    const both = new Client(["http://127.0.0.1:47999", url], { key });
    assert.equal((await both.model("ts")).name, "ts");
    await assert.rejects(new Client("http://127.0.0.1:47999", { tries: 2 }).createModel({ id: "m" }), (e) => e instanceof Unreachable && !e.unknown);
  },
  async "a caller may leave, and an answer that does not come ends"() {
    await stub(() => [200, {}], async (at) => {
      await assert.rejects(new Client(at).model("m", { signal: AbortSignal.abort() }), (e) => e instanceof Unreachable);
    });
    const silent = http.createServer(() => {});
    await new Promise((ready) => silent.listen(0, "127.0.0.1", ready));
    await assert.rejects(new Client(`http://127.0.0.1:${silent.address().port}`, { timeout: 50, tries: 2 }).model("m"), (e) => e instanceof Unreachable && e.unknown);
    silent.closeAllConnections();
    silent.close();
  },
  async "a model that went to another server is followed, and remembered"() {
    const event = "1003akf3kt5zbpnz001000n4w8ka39h0s0t0", there = "2003akf3kt5zbpnz001000n4w8ka39h0s0t0";
    await stub((n, r) => (r.url === "/v1/events/" + event + ":reward" || r.url === "/v1/models/m:decide"
      ? [200, r.url.endsWith("decide") ? { event_id: there, action: { id: "a" }, durable: true } : { status: "accepted", seq: n }] : [200, { status: "accepted", seq: n }]), async (to, second) => {
      await stub((n, r) => (r.url === "/v1/rewards:batch"
        ? [200, { results: [{ problem: problem("moved", { status: 307, moved_to: to }) }, { result: { status: "accepted", seq: 1 } }, { problem: problem("bad_event_id", { status: 400 }) }] }]
        : [307, problem("moved", { status: 307, moved_to: to }), { Location: to + r.url }]), async (from, first) => {
        const c = new Client(from, { key, tries: 1 });
        for (let i = 0; i < 3; i++) assert.equal((await c.decide("m", {})).event_id, there);
        assert.deepEqual([first.length, second.length], [1, 3]); // once by the old server
        assert.equal(second[0].headers.authorization, `Bearer ${key}`);
        assert.equal((await c.reward(there, 1)).status, "accepted"); // decided there: at once
        assert.equal((await c.reward(event, 1)).status, "accepted"); // decided here: by the old server
        assert.deepEqual([first.length, second.length], [2, 5]);
        const answers = await c.rewardBatch([{ event_id: event, value: 1 }, { event_id: "3" + event.slice(1), value: 1 }, { event_id: there, value: 1 }]);
        assert.deepEqual(answers.map((a) => a.result?.status), ["accepted", "accepted", "accepted"]);
      });
    });
  },
  async "addresses are checked"() {
    for (const bad of ["ftp://a", "http://a?b=c", []]) assert.throws(() => new Client(bad), TypeError);
    await client.deleteModel("ts");
    await assert.rejects(client.model("ts"), (e) => e.status === 404);
  },
};

for (const [name, play] of Object.entries(plays)) {
  await play();
  console.log(`ok  ${name}`);
}
