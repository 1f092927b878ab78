"""A client in Python's standard library: calls every route of /openapi.json, and does what a client of
Azure Personalizer does. Usage: client.py URL. It ends with exit code 0 and prints "ok" when every answer
was right and no route was left out."""

import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

base = sys.argv[1]
called = set()


def call(method, path, body=None, **headers):
    called.add((method, path.split("?")[0].replace("%3A", ":")))
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, method=method)
    request.add_header("Content-Type", "application/json")
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            raw = answer.read()
            form = answer.headers["Content-Type"] or ""
            if form == "application/x-ndjson":
                return answer.status, [json.loads(line) for line in raw.splitlines()], answer.headers
            if raw and "json" not in form:
                return answer.status, raw, answer.headers
            return answer.status, json.loads(raw or b"null"), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read()), error.headers


def expect(condition, what):
    if not condition:
        sys.exit("wrong: %s" % (what,))


status, model, headers = call("POST", "/v1/models", {"id": "python", "floor": 0.1, "reward": {"min": 0, "max": 1}})
expect(status == 201 and model["name"] == "python" and headers["ETag"] == '"1"', (status, model))

actions = [{"id": n, "features": {"price": p, "colour": c}} for n, p, c in [("a", 0.4, "red"), ("b", 0.9, "blue"), ("c", 0.1, "red")]]
seq = 0
for i in range(20):
    request = {"context": {"user": {"city": ["Oslo", "Bergen"][i % 2], "age": 20 + i}}, "actions": actions, "explain": "full", "min_seq": seq}
    status, d, _ = call("POST", "/v1/models/python:decide", request, Idempotency_Key="python-%d" % i)
    expect(status == 200 and d["durable"] and d["action"]["id"] in "abc", (status, d))
    total = sum(e["propensity"]["num"] for e in d["explain"])
    expect(total == d["propensity"]["den"], ("the propensities do not add up", d))
    expect(d["explain"][d["action"]["index"]]["propensity"] == d["propensity"], d)
    again = call("POST", "/v1/models/python:decide", request, Idempotency_Key="python-%d" % i)[1]
    expect(again["event_id"] == d["event_id"] and again["repeated"], again)
    # Some libraries write the colon of the path as %3A.
    path = "/v1/events/" + urllib.parse.quote(d["event_id"] + ":reward", safe="")
    status, r, _ = call("POST", path, {"value": 1 if d["action"]["id"] == "a" else 0})
    expect(status == 200 and r["status"] == "accepted", (status, r))
    seq = r["seq"]
    status, r, _ = call("POST", path, {"value": 1})
    expect(status == 200 and r["status"] == "duplicate", (status, r))

status, p, headers = call("POST", "/v1/models/python:decide", {"actions": actions, "contxt": {"city": "SECRET"}})
expect(status == 422 and p["code"] == "unknown_field" and p["field"] == "contxt" and "SECRET" not in json.dumps(p), (status, p))
expect(headers["Content-Type"] == "application/problem+json", headers["Content-Type"])
status, p, _ = call("POST", "/v1/events/%s:reward" % d["event_id"][::-1], {"value": 1})
expect(status == 400 and p["code"] == "bad_event_id", (status, p))
status, model, _ = call("GET", "/v1/models/python")
expect(model["counts"]["decisions"] == 20 and model["counts"]["rewards"] == 20, model["counts"])

# Batches, the catalogue, and what an administrator does.
one = {"context": {"user": {"city": "Oslo", "age": 31}}, "actions": actions}
status, r, _ = call("POST", "/v1/models/python:decideBatch", {"requests": [one, dict(one, defer_activation=True), {"actions": []}]})
expect(status == 200 and [("decision" in x) for x in r["results"]] == [True, True, False], (status, r))
expect(r["results"][2]["problem"]["code"] == "invalid", r["results"][2])
ids = [x["decision"]["event_id"] for x in r["results"][:2]]
status, r, _ = call("POST", "/v1/events/%s:activate" % ids[1])
expect(status == 200 and r["status"] == "accepted", (status, r))
status, r, _ = call("POST", "/v1/rewards:batch", {"rewards": [{"event_id": i, "value": 1} for i in ids + ["forged"]]})
expect([x.get("result", {}).get("status") for x in r["results"]] == ["accepted", "accepted", None], r)
status, r, _ = call("GET", "/v1/events/" + ids[0])
expect(status == 200 and r["action"]["id"] in "abc" and r["status"] == "rewarded", (status, r))
status, r, _ = call("POST", "/v1/events/%s:replay" % ids[0])
expect(status == 200 and r["equal"], (status, r))
status, p, _ = call("POST", "/v1/cluster:drain")
expect(status == 409 and p["code"] == "conflict", (status, p))  # a single machine is not drained
status, p, _ = call("DELETE", "/v1/cluster/nodes/b")
expect(status == 409 and p["code"] == "conflict", (status, p))
status, p, _ = call("GET", "/v1/cluster/replica")
expect(status == 409 and p["code"] == "conflict", (status, p))
status, b, headers = call("GET", "/v1/log/entries?from=1")
expect(headers["Log-First"] == "1" and b[:8] == bytes([1, 0, 0, 0, 0, 0, 0, 0]) and b[12:16] == b"TRPB", (status, headers, b[:16]))
status, p, _ = call("GET", "/v1/log/base")
expect(status == 404 and p["code"] == "not_found", (status, p))  # the log is whole
seq = call("GET", "/v1/models/python/state")[1]["seq"]
status, _, headers = call("POST", "/v1/models/python/actions", {"actions": actions})
expect(status == 200, status)
status, _, _ = call("DELETE", "/v1/models/python/actions/c", If_Match=headers["ETag"])
expect(status == 200, status)
status, _, _ = call("DELETE", "/v1/models/python/actions/b", If_Match=headers["ETag"])
expect(status == 412, status)  # somebody, we, changed it meanwhile
status, r, _ = call("GET", "/v1/models/python/actions")
expect([x["id"] for x in r["actions"]] == ["a", "b"], r)
status, model, headers = call("PATCH", "/v1/models/python", {"reward": {"window": "1h"}}, If_Match="*")
expect(status == 200 and model["config"]["reward"]["window"] == "1h0m0s", (status, model))
model["config"]["reward"]["window"] = "10m"
status, model, _ = call("PUT", "/v1/models/python", model["config"], If_Match=headers["ETag"])
expect(status == 200, (status, model))
expect(call("POST", "/v1/models/python:pause")[0] == 200, "pause")
status, p, _ = call("POST", "/v1/models/python:decide", one)
expect(status == 409 and p["code"] == "paused", (status, p))
expect(call("POST", "/v1/models/python:resume")[0] == 200, "resume")
status, r, _ = call("POST", "/v1/models/python:clone", {"name": "copy", "at_seq": seq})
expect(status == 201 and r["name"] == "copy", (status, r))
status, saved, _ = call("GET", "/v1/models/python/state?format=model")
expect(status == 200 and saved[:4] == b"TRPM", (status, saved))
status, r, _ = call("POST", "/v1/models/warm:createFrom", saved)
expect(status == 201 and r["name"] == "warm", (status, r))
expect(call("GET", "/v1/models/warm/state?format=binary")[1] == call("GET", "/v1/models/python/state?format=binary")[1], "the state of warm")
expect(call("DELETE", "/v1/models/warm")[0] == 204, "delete")
status, r, _ = call("POST", "/v1/models/python:rollback", {"to_seq": seq})
expect(status == 200, (status, r))
status, r, _ = call("GET", "/v1/models?page_size=1")
expect(status == 200 and len(r["models"]) == 1 and r["next_page_token"], (status, r))
expect(call("DELETE", "/v1/models/copy")[0] == 204, "delete")

# Actions come and go, and does choosing pay?
status, r, _ = call("POST", "/v1/models", {"id": "paid", "budget": {"mean": 0.5}})
expect(status == 201, (status, r))
status, r, _ = call("POST", "/v1/models/paid/actions:enter", {"id": "new", "floor": 0.1, "decisions": 5, "prior": {"mean": 0.5, "events": 10}})
expect(status == 200 and [x["id"] for x in r["config"]["entered"]] == ["new"], (status, r))
status, r, _ = call("POST", "/v1/models/paid:decide", {"actions": [{"id": "old", "cost": 0.1}, {"id": "new", "cost": 0.2}]})
expect(status == 200 and r["propensity"]["num"] <= r["propensity"]["den"], (status, r))
expect(call("POST", "/v1/events/%s:reward" % r["event_id"], {"value": 1})[0] == 200, "reward")
status, r, _ = call("GET", "/v1/models/paid/coin")
expect(status == 200, (status, r))
status, r, _ = call("GET", "/v1/models/paid/control")
expect(status == 200, (status, r))
status, r, _ = call("POST", "/v1/models/paid/actions:leave", {"id": "new"})
expect(status == 200 and r["config"]["entered"][0]["left"], (status, r))

# The log, in pages of ten entries.
rows, at = [], 1
while True:
    status, page, headers = call("GET", "/v1/models/python/log?page_size=10&from=%d" % at)
    expect(status == 200, (status, page))
    rows += page
    if not headers["Link"]:
        break
    at = int(headers["Log-Next"])
expect(sum(r["kind"] == "decision" for r in rows) == 22 and sum(r["kind"] == "reward" for r in rows) == 22, rows)
expect(all(0 < r["num"] <= r["den"] for r in rows if r["kind"] == "decision"), "propensities")

# Decisions with what became of them, in one page.
status, page, headers = call("GET", "/v1/models/python/decisions?page_size=100000")
expect(status == 200 and len(page) == 22 and int(headers["Log-Next"]) > int(headers["Log-Applied"]), (status, page))
expect(all(d["reward_state"] == "pending" and abs(sum(d["law"]) - 1) < 1e-9 for d in page), page)

# Azure Personalizer's clients.
key = {"Ocp_Apim_Subscription_Key": "0123456789abcdef"}
prefix = "/v1/models/python/personalizer/v1.0"
for i in range(5):
    event = "order %d/x" % i
    rank = {
        "contextFeatures": [{"user": {"city": "Oslo", "age": 31}}],
        "actions": [{"id": a["id"], "features": [a["features"]]} for a in actions],
        "excludedActions": ["c"], "eventId": event, "deferActivation": i % 2 == 1,
    }
    status, r, _ = call("POST", prefix + "/rank", rank, **key)
    expect(status == 201 and r["eventId"] == event and r["rewardActionId"] in "ab", (status, r))
    expect(sorted(x["id"] for x in r["ranking"]) == ["a", "b", "c"] and abs(sum(x["probability"] for x in r["ranking"]) - 1) < 1e-12, r)
    event = urllib.parse.quote(event, safe="")
    if i % 2 == 1:
        status, _, _ = call("POST", prefix + "/events/%s/activate" % event, **key)
        expect(status == 204, status)
    status, _, _ = call("POST", prefix + "/events/%s/reward" % event, {"value": 0.7}, **key)
    expect(status == 204, status)
status, r, _ = call("POST", prefix + "/events/nobody/reward", {"value": 0.7}, **key)
expect(status == 404 and r["error"]["code"] == "ResourceNotFound", (status, r))
status, r, _ = call("POST", prefix + "/rank", {"actions": []}, **key)
expect(status == 400 and r["error"]["target"] == "actions", (status, r))
status, c, _ = call("GET", prefix + "/configurations/service", **key)
expect(c["rewardWaitTime"] == "PT10M" and c["rewardAggregation"] == "earliest" and c["learningMode"] == "Online", c)
c.update(rewardWaitTime="PT1H", explorationPercentage=0.25, learningMode="Apprentice")
status, c, _ = call("PUT", prefix + "/configurations/service", c, **key)
expect(status == 200 and c["rewardWaitTime"] == "PT1H" and c["explorationPercentage"] == 0.25, (status, c))
status, r, _ = call("POST", prefix + "/rank", {"actions": [{"id": a["id"], "features": [a["features"]]} for a in actions]}, **key)
expect(status == 201 and r["rewardActionId"] == "a" and r["ranking"] == [{"id": "a", "probability": 1}, {"id": "b", "probability": 0}, {"id": "c", "probability": 0}], ("apprentice", r))

# Several slots in one call.
slots = {"eventId": "page 1", "contextFeatures": [{"user": {"city": "Oslo", "age": 31}}], "slots": [{"id": "top"}, {"id": "side", "excludedActions": ["a"]}],
         "actions": [{"id": a["id"], "features": [a["features"]]} for a in actions]}
call("POST", "/v1/models", {"id": "page"})
prefix = "/v1/models/page/personalizer/v1.0/multislot"
status, r, _ = call("POST", prefix + "/rank", slots, **key)
expect(status == 201 and [x["id"] for x in r["slots"]] == ["top", "side"] and r["slots"][0]["rewardActionId"] != r["slots"][1]["rewardActionId"] != "a", (status, r))
status, r, _ = call("POST", prefix + "/events/page%201/reward", {"reward": [{"slotId": "top", "value": 1}, {"slotId": "side", "value": 0.5}]}, **key)
expect(status == 204, (status, r))
expect(call("POST", prefix + "/events/page%201/activate", **key)[0] == 204, "activate")

prefix = "/v1/models/page/personalizer/v1.0"
status, r, _ = call("GET", prefix + "/configurations/policy", **key)
expect(status == 200 and r["name"] == "page", (status, r))
for path in "/model", "/model/properties", "/logs/properties":
    expect(call("GET", prefix + path, **key)[0] == 200, path)
status, same, _ = call("PUT", prefix + "/configurations/policy", r, **key)
expect(status == 200 and same == r, (status, same))
status, same, _ = call("DELETE", prefix + "/configurations/policy", **key)
expect(status == 200 and same == r, (status, same))
for method, path in [("PUT", "/model"), ("DELETE", "/logs"), ("POST", "/logs/interactions"), ("POST", "/logs/observations"),
                     ("POST", "/configurations/applyFromEvaluation")]:
    status, r, _ = call(method, prefix + path, **key)
    expect(status == 501 and r["error"]["code"] == "NotImplemented", (method, path, status, r))
status, made, headers = call("POST", prefix + "/evaluations", {"name": "e", "startTime": "2026-01-01T00:00:00Z", "endTime": "2126-01-01T00:00:00Z", "policies": []}, **key)
expect(status == 201 and made["status"] == "pending" and headers["Location"] == prefix + "/evaluations/" + made["id"], (status, made))
status, r, _ = call("GET", headers["Location"], **key)
expect(status == 200 and r["id"] == made["id"] and r["status"] in ("pending", "completed", "failed"), (status, r))
status, r, _ = call("GET", prefix + "/evaluations", **key)
expect(status == 200 and [x["id"] for x in r] == [made["id"]], (status, r))
expect(call("DELETE", headers["Location"], **key)[0] == 204, "deletion of the evaluation")
expect(call("DELETE", prefix + "/model", **key)[0] == 204, "reset of the model")
# A model that is to go to another server: closed, read, open again, then gone.
to = "http://127.0.0.1:9"
expect(call("POST", "/v1/models", {"id": "leaves"})[0] == 201, "a model that leaves")
two = {"actions": [{"id": "a"}, {"id": "b"}]}
status, view, _ = call("POST", "/v1/models/leaves:depart", {"to": to})
expect(status == 200 and view["state"] == "closed" and view["to"] == to, (status, view))
status, r, _ = call("POST", "/v1/models/leaves:decide", two)
expect(status == 503, (status, r))
status, parcel, _ = call("GET", "/v1/models/leaves/parcel")
expect(status == 200 and len(parcel) > 100, (status, len(parcel)))
status, r, _ = call("POST", "/v1/models/leaves:arrive", parcel, Content_Type="application/octet-stream")
expect(status == 409, (status, r))
status, r, _ = call("POST", "/v1/models/elsewhere:turn", {"move": view["move"], "incarnation": "5d41402abc4b2a76"})
expect(status == 200, (status, r))
status, r, _ = call("POST", "/v1/models/leaves:stay", {"move": view["move"]})
expect(status == 200 and r["state"] == "here" and call("POST", "/v1/models/leaves:decide", two)[0] == 200, (status, r))
status, view, _ = call("POST", "/v1/models/leaves:depart", {"to": to})
expect(call("POST", "/v1/models/leaves:gone", {"move": view["move"]})[1]["state"] == "gone", "gone")
expect(call("GET", "/v1/models/leaves/move")[1]["to"] == to, "where it went")
status, r, headers = call("POST", "/v1/models/leaves:decide", two)
expect(status == 307 and headers["Location"] == to + "/v1/models/leaves:decide", (status, r))
for path in "/livez", "/readyz", "/metrics", "/", "/docs":
    expect(call("GET", path)[0] == 200, path)

for path, methods in call("GET", "/openapi.json")[1]["paths"].items():
    form = re.compile(re.sub(r"\\{[a-z]+\\}", "[^/]+", re.escape(path)) + "$")
    for method in methods:
        expect(any(m == method.upper() and form.match(p) for m, p in called), "%s %s was not called" % (method, path))
print("ok")
