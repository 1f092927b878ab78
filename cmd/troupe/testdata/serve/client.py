"""A client in Python's standard library: decides, pays, and does what a client of Azure Personalizer
does. Usage: client.py URL. It ends with exit code 0 and prints "ok" when every answer was right."""

import json
import sys
import urllib.error
import urllib.parse
import urllib.request

base = sys.argv[1]


def call(method, path, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, method=method)
    request.add_header("Content-Type", "application/json")
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read() or b"null"), answer.headers
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
print("ok")
