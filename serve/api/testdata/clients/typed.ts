// A client made of docs/reference/openapi.json by openapi-typescript and openapi-fetch: it must compile.
import createClient from "openapi-fetch";
import type { components, paths } from "./troupe.js";

const client = createClient<paths>({ baseUrl: "http://127.0.0.1:8080", headers: { Authorization: "Bearer troupe_ID_SECRET" } });

export async function loop(model: string): Promise<string> {
  const made = await client.POST("/v1/models", { body: { id: model, floor: 0.02, reward: { min: 0, max: 1 } } });
  if (made.error) throw new Error(made.error.code);
  const params = { path: { model } };
  const { data, error } = await client.POST("/v1/models/{model}:decide", {
    params,
    body: { context: { city: "Oslo" }, actions: [{ id: "a", features: { price: 0.4 } }, { id: "b" }] },
  });
  if (error) throw new Error(`${error.code}: ${error.detail}`);
  const p = data.propensity; // absent where numbers without steps are played
  const propensity: number = p ? p.num / p.den : 1;
  const reward = await client.POST("/v1/events/{event}:reward", { params: { path: { event: data.event_id } }, body: { value: propensity > 0.5 ? 1 : 0 } });
  const status: string | undefined = reward.data?.status;
  await client.PATCH("/v1/models/{model}", { params: { ...params, header: { "If-Match": "*" } }, body: { floor: 0.05 } });
  const ranked = await client.POST("/v1/models/{model}/personalizer/v1.0/rank", { params, body: { actions: [{ id: "a" }] } });
  return `${status} ${ranked.data?.rewardActionId}`;
}

export function words(p: components["schemas"]["Problem"]): string {
  return `${p.status} ${p.code} ${p.detail ?? ""}`;
}

// @ts-expect-error: a reward's value is a number; text does not compile.
void client.POST("/v1/events/{event}:reward", { params: { path: { event: "e" } }, body: { value: "1" } });
