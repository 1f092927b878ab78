// The clients of Azure Personalizer from npm, against a running server: node personalizer.mjs URL KEY
// KEY has every scope. Each call of both packages is made; a call without a counterpart must say what to do instead.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { ApiKeyCredentials } from "@azure/ms-rest-js";
import old from "@azure/cognitiveservices-personalizer";
import rest from "@azure-rest/ai-personalizer";

const [url, key] = process.argv.slice(2);
const credentials = new ApiKeyCredentials({ inHeader: { "Ocp-Apim-Subscription-Key": key } });
const v1 = new old.PersonalizerClient(credentials, url);
const v11 = (rest.default ?? rest)(url, { key }, { allowInsecureConnection: true });

const contextFeatures = [{ user: { city: "Oslo", age: 31 } }, { device: "mobile" }];
const actions = ["a", "b", "c"].map((id, i) => ({ id, features: [{ price: i / 10, kind: id === "c" ? "old" : "new" }] }));
const probabilities = (ranking) => ranking.reduce((sum, x) => sum + x.probability, 0);
let calls = 0;

// refuses makes a call that must fail, and returns the error of the body.
async function refuses(status, call) {
  calls++;
  const failure = await call.then(() => assert.fail("the call was answered"), (e) => e);
  assert.equal(failure.statusCode, status, failure.message);
  const error = failure.body?.error ?? JSON.parse(failure.response.bodyAsText).error;
  assert.ok(error.code && error.message && error.innerError.code, JSON.stringify(error));
  return error;
}

// answers makes a call of the REST client and returns its body.
async function answers(status, call) {
  calls++;
  const r = await call;
  assert.equal(Number(r.status), status, `${r.request.method} ${r.request.url}: ${r.status} ${JSON.stringify(r.body)}`);
  return r.body;
}

// says makes a call that has no counterpart: 501, and words.
async function says(words, call) {
  const { error } = await answers(501, call);
  assert.equal(error.code, "NotImplemented");
  assert.equal(error.innerError.code, "not_supported");
  assert.match(error.message, words);
}

// @azure/cognitiveservices-personalizer
{
  const eventId = randomUUID();
  const r = await v1.rank({ contextFeatures, actions, excludedActions: ["c"], eventId, deferActivation: false });
  assert.equal(r.eventId, eventId);
  assert.equal(r.ranking.length, 3);
  assert.notEqual(r.rewardActionId, "c");
  assert.equal(r.ranking[2].probability, 0);
  assert.ok(Math.abs(probabilities(r.ranking) - 1) < 1e-12);
  await v1.events.reward(eventId, { value: 1 });
  const ours = await v1.rank({ contextFeatures, actions, deferActivation: true });
  assert.ok(ours.eventId);
  await v1.events.activate(ours.eventId);
  await v1.events.reward(ours.eventId, { value: 0.5 });
  const empty = await v1.rank({ actions: [{ id: "x", features: [] }, { id: "y", features: [{}] }] });
  assert.ok(["x", "y"].includes(empty.rewardActionId));
  assert.equal((await refuses(404, v1.events.reward(randomUUID(), { value: 1 }))).code, "ResourceNotFound");
  assert.equal((await refuses(400, v1.events.reward(eventId, { value: 2.5 }))).target, "value");
  calls += 6;
}

// @azure-rest/ai-personalizer: events
{
  const eventId = randomUUID();
  const r = await answers(201, v11.path("/rank").post({ body: { contextFeatures, actions, eventId, deferActivation: true } }));
  assert.equal(r.eventId, eventId);
  assert.ok(Math.abs(probabilities(r.ranking) - 1) < 1e-12);
  await answers(204, v11.path("/events/{eventId}/activate", eventId).post());
  await answers(204, v11.path("/events/{eventId}/reward", eventId).post({ body: { value: 1 } }));
  const unknown = await answers(404, v11.path("/events/{eventId}/reward", randomUUID()).post({ body: { value: 1 } }));
  assert.equal(unknown.error.code, "ResourceNotFound");
  const control = await answers(400, v11.path("/rank").post({ body: { actions: [{ id: "a\u0000", features: [] }] } }));
  assert.equal(control.error.target, "actions[0].id");

  for (const deferActivation of [false, true]) {
    const eventId = randomUUID();
    const slots = [
      { id: "top", features: [{ size: "large" }], excludedActions: ["c"], baselineAction: "a" },
      { id: "side", features: [{ size: "small" }], baselineAction: "b" },
    ];
    const r = await answers(201, v11.path("/multislot/rank").post({ body: { contextFeatures, actions, slots, eventId, deferActivation } }));
    assert.deepEqual(r.slots.map((s) => s.id), ["top", "side"]);
    assert.notEqual(r.slots[0].rewardActionId, r.slots[1].rewardActionId);
    await answers(204, v11.path("/multislot/events/{eventId}/activate", eventId).post());
    const reward = slots.map((s) => ({ slotId: s.id, value: 0.5 }));
    await answers(204, v11.path("/multislot/events/{eventId}/reward", eventId).post({ body: { reward } }));
  }
}

// Configuration
{
  const service = v11.path("/configurations/service");
  const before = await answers(200, service.get());
  assert.equal(before.rewardWaitTime, "PT10M");
  assert.equal(before.explorationPercentage, 0.2);
  assert.deepEqual({ ...(await answers(200, service.put({ body: before }))), lastConfigurationEditDate: 0 }, { ...before, lastConfigurationEditDate: 0 });
  for (const learningMode of ["Apprentice", "LoggingOnly", "Online"]) {
    const now = await answers(200, service.put({ body: { ...before, learningMode, defaultReward: 0.1, rewardAggregation: "sum" } }));
    assert.equal(now.learningMode, learningMode);
    assert.equal(now.defaultReward, 0.1);
  }
  await answers(200, service.put({ body: before }));

  const policy = v11.path("/configurations/policy");
  const settings = await answers(200, policy.get());
  assert.ok(JSON.parse(settings.arguments).kind);
  assert.deepEqual(await answers(200, policy.put({ body: settings })), settings);
  assert.deepEqual(await answers(200, policy.delete()), settings);
  await says(/another model/, policy.put({ body: { name: "greedy", arguments: '{"kind":"greedy"}' } }));
  assert.equal((await answers(400, policy.put({ body: { name: "vw", arguments: "--cb_explore_adf --epsilon 0.2" } }))).error.target, "arguments");
  await says(/troupe evaluate/, v11.path("/configurations/applyFromEvaluation").post({ body: { evaluationId: "e", policyName: "p" } }));
}

// Model and logs
{
  const model = v11.path("/model");
  for (const signed of [false, true]) {
    calls++;
    const r = await model.get({ queryParameters: { signed } });
    assert.equal(r.status, "200");
  }
  const made = await answers(200, v11.path("/model/properties").get());
  assert.ok(new Date(made.lastModifiedTime) >= new Date(made.creationTime));
  await says(/:clone/, model.put({ body: new Uint8Array([1, 2, 3]), contentType: "application/octet-stream" }));
  await answers(204, model.delete());

  const range = (await answers(200, v11.path("/logs/properties").get())).dateRange;
  assert.ok(new Date(range.to) >= new Date(range.from));
  await says(/--keep/, v11.path("/logs").delete());
  await says(/LoggingOnly/, v11.path("/logs/interactions").post({ body: "x", contentType: "application/octet-stream" }));
  await says(/rewards:batch/, v11.path("/logs/observations").post({ body: "x", contentType: "application/octet-stream" }));
}

// Evaluations, in a loop of its own with a short wait, so that its rewards are settled.
{
  const made = await fetch(`${url}/v1/models`, {
    method: "POST", headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ id: "brief", floor: 0.2, reward: { window: "1s", default: 0 } }),
  });
  assert.equal(made.status, 201, await made.text());
  const brief = (rest.default ?? rest)(`${url}/v1/models/brief`, { key }, { allowInsecureConnection: true });
  const n = 20;
  for (let i = 0; i < n; i++) {
    const r = await answers(201, brief.path("/rank").post({ body: { contextFeatures, actions } }));
    await answers(204, brief.path("/events/{eventId}/reward", r.eventId).post({ body: { value: r.rewardActionId === "a" ? 1 : 0 } }));
  }
  const evaluation = { name: "e", startTime: new Date(Date.now() - 3600e3), endTime: new Date(Date.now() + 3600e3), policies: [] };
  const evaluations = brief.path("/evaluations");
  const one = (id) => brief.path("/evaluations/{evaluationId}", id);
  const deadline = Date.now() + 60e3;
  let done, id;
  for (;;) { // until the windows are over by the clock of the log, which a rank moves on
    await answers(201, brief.path("/rank").post({ body: { contextFeatures, actions } }));
    const made = await evaluations.post({ body: evaluation });
    calls++;
    assert.equal(made.status, "201", JSON.stringify(made.body));
    id = made.body.id;
    assert.ok(made.headers.location.endsWith(`/evaluations/${id}`), made.headers.location);
    assert.equal(made.body.status, "pending");
    while ((done = await answers(200, one(id).get())).status === "pending") {
      assert.ok(Date.now() < deadline, "the evaluation does not end");
      await new Promise((wake) => setTimeout(wake, 20));
    }
    if (done.status === "completed" && done.policyResults[0].totalSummary.ipsEstimatorDenominator >= n) break;
    assert.ok(Date.now() < deadline, JSON.stringify(done));
    await answers(204, one(id).delete());
    await new Promise((wake) => setTimeout(wake, 200));
  }
  assert.deepEqual(done.policyResults.map((r) => r.policySource), ["Online", "Baseline", "Random"]);
  assert.deepEqual([done.name, done.evaluationType, done.featureImportance], ["e", "Manual", []]);
  for (const { policySource, summary, totalSummary: t } of done.policyResults) {
    assert.ok(Math.abs(t.averageReward - t.ipsEstimatorNumerator / t.ipsEstimatorDenominator) < 1e-12 && t.confidenceInterval >= 0, policySource);
    assert.ok(Math.abs(summary.reduce((sum, s) => sum + s.ipsEstimatorNumerator, 0) - t.ipsEstimatorNumerator) < 1e-9, policySource);
  }
  assert.ok((await answers(200, evaluations.get())).some((e) => e.id === id && e.status === "completed"));
  for (const [field, value] of [["policies", [{ name: "vw", arguments: "--cb_explore_adf" }]], ["enableOfflineExperimentation", true], ["startTime", "today"], ["name", ""]]) {
    assert.equal((await answers(400, evaluations.post({ body: { ...evaluation, [field]: value } }))).error.target, field);
  }
  await answers(204, one(id).delete());
  assert.equal((await answers(404, one(id).get())).error.code, "ResourceNotFound");
}

// After the reset of the model it goes on.
await answers(201, v11.path("/rank").post({ body: { contextFeatures, actions } }));
console.log(`${calls} calls of Personalizer's clients are answered as they should be`);
