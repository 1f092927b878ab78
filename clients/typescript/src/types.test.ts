// What must compile, and what must not. It is type-checked and never run.
import { Client, type Decision, type Model } from "./index.js";

export async function loop(client: Client): Promise<number> {
  const made: Model = await client.createModel({
    id: "m", floor: 0.02, reward: { min: 0, max: 1, rule: "sum", default: "none", window: "10m", adapt: false },
    budget: { mean: 0.5, on_empty: "cheapest" }, floors: { a: 0.1 },
  });
  const kind: "hashed" | "schema" | "vector" | string = made.kind;
  const d: Decision = await client.decide("m", { context: { city: "Oslo" }, actions: [{ id: "a", features: { price: 0.4 }, cost: 1 }, { id: "b", cost: 2 }] });
  await client.changeModel("m", { floor: null, reward: { window: null } }, made.config_version);
  // @ts-expect-error: a reward is a number
  await client.reward(d.event_id, "1");
  // @ts-expect-error: there is no such rule
  await client.createModel({ id: "m", reward: { rule: "mean" } });
  // @ts-expect-error: there is no such field
  await client.decide("m", { contxt: {} });
  // @ts-expect-error: a new model has no null
  await client.createModel({ id: "m", floor: null });
  const page: Decision = await client.decide("m", { slots: [{ id: "hero" }, { id: "side", exclude: ["a"] }], actions: [{ id: "a" }, { id: "b" }] });
  const entry = page.list?.[0];
  await client.reward(page.event_id, 1, { position: entry?.position ?? 0, shown: 2 });
  await client.rewardList(page.event_id, [1, 0], { shown: 1 });
  // @ts-expect-error: a position is a number
  await client.reward(page.event_id, 1, { position: "hero" });
  // @ts-expect-error: one value for each position
  await client.rewardList(page.event_id, 1);
  return kind.length + (d.propensity ? d.propensity.num / d.propensity.den : 0);
}
