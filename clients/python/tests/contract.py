"""Holds what a server answers to its own OpenAPI document, in tests. It needs Debian's python3-jsonschema."""

import http.client
import io
import json
import os
import re
import urllib.request

try:
    import jsonschema
except ImportError:
    if os.environ.get("TROUPE_CONTRACT") == "require":
        raise
    jsonschema = None


class Document:
    """The document of a server. check raises ValueError for an answer that it does not describe."""

    def __init__(self, url):
        with urllib.request.urlopen(url + "/openapi.json", timeout=60) as answer:
            self.doc = json.load(answer)
        self.paths = []
        for template, item in self.doc["paths"].items():
            form = re.sub(r"\\\{(\w+)\\\}", lambda m: "(.+)" if m[1] == "action" else "([^/:]+)", re.escape(template))
            self.paths.append((template.count("{"), template, re.compile(form + "$"), item))
        self.paths.sort(key=lambda p: p[0])

    def check(self, method, path, status, kind, body):
        kind = (kind or "").split(";")[0]
        if kind not in ("application/json", "application/problem+json"):
            return
        path = urllib.request.unquote(path.split("?")[0])
        for _, template, form, item in self.paths:
            operation = item.get(method.lower())
            if operation and form.match(path):
                break
        else:
            return
        for key in (str(status), f"{str(status)[0]}XX", "default"):
            if key in operation["responses"] and not (key == "default" and status < 400):
                schema = operation["responses"][key].get("content", {}).get(kind, {}).get("schema")
                if schema is None:
                    raise ValueError(f"{method} {template}: {status}: {kind} is not in the document")
                whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "components": self.doc["components"],
                         "allOf": [schema]}
                for error in jsonschema.Draft202012Validator(whole).iter_errors(json.loads(body)):
                    raise ValueError(f"{method} {template}: {status}: {list(error.absolute_path)}: {error.message}: {body[:500]!r}")
                return
        raise ValueError(f"{method} {template}: the status {status} is not in the document")


documents = {}
checked = [0]


class Answer(io.BytesIO):
    """An answer that was read."""

    def __init__(self, answer):
        super().__init__(answer.read())
        self.status, self.reason, self.getheader = answer.status, answer.reason, answer.getheader


class Connection(http.client.HTTPConnection):
    """A connection whose answers are held to the document."""

    def request(self, method, url, *args, **kwargs):
        self.asked = method, url
        super().request(method, url, *args, **kwargs)

    def getresponse(self):
        answer = Answer(super().getresponse())
        url = f"http://{self.host}:{self.port}"
        if url not in documents:
            try:
                documents[url] = Document(url)
            except (OSError, ValueError):  # a stub, or a server that has just ended
                return answer
        documents[url].check(*self.asked, answer.status, answer.getheader("Content-Type"), answer.getvalue())
        checked[0] += 1
        return answer
