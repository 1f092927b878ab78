"""troupe chooses the deployment of each request of a LiteLLM router.

    router = litellm.Router(model_list=[...])
    routing = TroupeRouting(router, Client("http://127.0.0.1:8080"), "chat")
    router.set_custom_routing_strategy(routing)
    litellm.callbacks = [routing.failures()]
    facts = {"topic": "billing"}
    answer = router.completion(model="chat", messages=messages, metadata=facts)
    routing.reward(facts, 1.0)          # when you know how good the answer was

The model of troupe must exist (client.create_model("chat")). The context has the length and a few flags of the prompt,
and what is in the metadata; no prompt is sent. A call that fails is a reward of 0.
"""

try:
    from litellm.integrations.custom_logger import CustomLogger
    from litellm.types.router import CustomRoutingStrategyBase
except ImportError:  # without litellm, as in the tests
    CustomLogger = CustomRoutingStrategyBase = object

EVENT = "troupe_event"  # the key of the metadata that has the event's id


def context(messages, facts):
    """What the choice may depend on."""
    text = " ".join(m["content"] for m in messages or [] if isinstance(m.get("content"), str))
    more = {k: v for k, v in facts.items() if isinstance(v, (str, int, float, bool)) and k != EVENT}
    return {"prompt": {"characters": len(text), "turns": len(messages or []), "code": "```" in text, "question": "?" in text}, "facts": more}


class TroupeRouting(CustomRoutingStrategyBase):
    def __init__(self, router, client, model):
        self.router, self.client, self.model = router, client, model

    def get_available_deployment(self, model, messages=None, input=None, specific_deployment=False, request_kwargs=None):
        found = {d["model_info"]["id"]: d for d in self.router.model_list if d["model_name"] == model}
        if not found:
            raise ValueError(f"no deployment has the name {model!r}")
        facts = (request_kwargs if request_kwargs is not None else {}).setdefault("metadata", {})
        decision = self.client.decide(self.model, context(messages, facts), sorted(found))
        facts[EVENT] = decision.event_id
        return found[decision.action]

    async def async_get_available_deployment(self, *args, **kwargs):
        import asyncio
        return await asyncio.get_running_loop().run_in_executor(None, lambda: self.get_available_deployment(*args, **kwargs))

    def reward(self, facts, value, cost=None):
        """Reports how good the answer was whose metadata facts were."""
        return self.client.reward(facts[EVENT], value, cost=cost)

    def failures(self):
        """A callback for litellm.callbacks: a call that fails is a reward of 0."""
        routing = self

        class Failures(CustomLogger):
            def log_failure_event(self, kwargs, response_obj, start_time, end_time):
                facts = kwargs.get("litellm_params", {}).get("metadata") or {}
                if EVENT in facts:
                    routing.reward(facts, 0.0)

        return Failures()
