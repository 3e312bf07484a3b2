"""The server's words: what it answers, refuses and remembers; nothing is judged here."""

from __future__ import annotations

import itertools
import math
import time

import httpx
import pytest

pytest.importorskip("fastapi")

from portakern.serve.settings import Settings
from tests.serve.support import TASK, Told, serving, until

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def client():
    with serving(Told()) as found:
        yield found


def problem(answer: httpx.Response) -> dict[str, str]:
    """The error of an answer, which has all of its parts."""
    error = answer.json()["error"]
    assert set(error) == {"kind", "what", "where", "next"} and error["kind"] and error["what"]
    return error


def test_a_task_is_registered_once_and_tells_what_a_generator_needs(client):
    told = client.post("/v1/tasks", json=TASK).json()
    assert client.get(f"/v1/tasks/{told['id']}").json() == told == client.post("/v1/tasks", json=TASK).json()
    assert (told["operator"], told["target"], told["shape"]) == ("softmax", "cpp:cpu", {"M": 8, "N": 33})
    assert told["starting_kernel"] and told["convention"] and [a["role"] for a in told["arrays"]] == ["input", "output"]


def test_a_candidate_by_the_tasks_id_and_by_the_task(client):
    id = client.post("/v1/tasks", json=TASK).json()["id"]
    for task in (id, TASK):
        answer = client.post("/v1/evaluate", json={"task": task, "source": "text", "level": "quick"}).json()
        assert (answer["state"], answer["row"]["correct"], answer["row"]["evidence"]) == ("done", True, "executed")
        assert client.get(f"/v1/jobs/{answer['id']}").json()["row"] == answer["row"]


def test_a_row_with_numbers_that_json_has_not():
    odd = Told(lambda t: t.made.work.row.but(correct=False, max_error_ratio=math.inf, estimate={"us": math.nan}))
    with serving(odd) as client:
        row = client.post("/v1/evaluate", json={"task": TASK, "source": "text"}).json()["row"]
    assert (row["correct"], row["max_error_ratio"], row["estimate"]) == (False, None, {"us": None})


REFUSED = {
    "no task of that id": ("/v1/evaluate", {"task": "0123", "source": "x"}, 404, "unknown"),
    "no operator": ("/v1/evaluate", {"task": {**TASK, "operator": "sofmax"}, "source": "x"}, 400, "usage"),
    "no target": ("/v1/tasks", {**TASK, "target": "cpp:gpu"}, 400, "usage"),
    "no dim": ("/v1/tasks", {**TASK, "values": {"Q": 3}}, 400, "usage"),
    "no dtype": ("/v1/tasks", {**TASK, "dtype": "f33"}, 400, "usage"),
    "a size that is none": ("/v1/tasks", {**TASK, "values": {"M": -1}}, 400, "usage"),
    "too large": ("/v1/tasks", {**TASK, "values": {"M": 1 << 20, "N": 1 << 20}}, 413, "too-large"),
    "a text and no form of it": ("/v1/tasks", {**TASK, "form": "module"}, 400, "usage"),
    "no level": ("/v1/evaluate", {"task": TASK, "source": "x", "level": "best"}, 422, "request"),
    "a word that is not known": ("/v1/evaluate", {"task": TASK, "source": "x", "levl": "full"}, 422, "request"),
    "no source": ("/v1/evaluate", {"task": TASK}, 422, "request"),
    "a peer that is a file": ("/v1/evaluate", {"task": TASK, "source": "x", "against": ["/etc/x.py:f"]}, 400, "usage"),
    "a batch of nothing": ("/v1/batches", {"task": TASK, "candidates": []}, 422, "request"),
    "no language that inspects": ("/v1/inspect", {"source": "x", "target": "cpp:cpu"}, 400, "usage"),
    "too many targets": ("/v1/compare", {"operator": "softmax", "targets": ["all"]}, 400, "usage"),
    "no path": ("/v1/evaluates", {}, 404, "unknown"),
}


@pytest.mark.parametrize(("path", "body", "status", "kind"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_sense_is_said_to_be_so(client, path, body, status, kind):
    answer = client.post(path, json=body)
    assert (answer.status_code, problem(answer)["kind"]) == (status, kind)
    assert problem(answer)["next"]


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe", b"", b'{"task": ' + b"[" * 50_000])
def test_what_is_no_json_is_refused(client, content):
    answer = client.post("/v1/evaluate", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422) and problem(answer)


def test_where_an_error_is(client):
    error = problem(client.post("/v1/batches", json={"task": TASK, "candidates": [{"source": "x"}, {"sauce": "x"}]}))
    assert "candidates.1" in error["where"]


def test_a_batch_from_beginning_to_end():
    bench = Told(held=True)
    with serving(bench) as client:
        asked = {"task": TASK, "level": "quick", "id": "mine", "candidates": [{"source": f"text {n}"} for n in range(5)]}
        answer = client.post("/v1/batches", json=asked)
        told = answer.json()
        assert (answer.status_code, told["id"], told["done"], told["counts"]["queued"]) == (202, "mine", False, 5)
        assert client.get("/v1/batches/mine/results").json() == {"id": "mine", "done": False, "results": [], "next": 0}
        late, *rest = bench.taken
        bench.taken = rest
        bench.release()
        part = client.get("/v1/batches/mine/results").json()  # the first is not done: all others are told, and will be again
        assert ([r["id"] for r in part["results"]], part["next"]) == (told["jobs"][1:], 0)
        bench.taken = [late]
        bench.release()
        whole = client.get("/v1/batches/mine/results", params={"wait_s": 20}).json()
        assert ([r["id"] for r in whole["results"]], whole["done"], whole["next"]) == (told["jobs"], True, 5)
        assert client.get("/v1/batches/mine/results", params={"after": 3}).json()["results"] == whole["results"][3:]
        assert problem(client.post("/v1/batches", json=asked))["kind"] == "exists"


def test_cancelling():
    bench = Told(held=True)
    with serving(bench) as client:
        asked = {"task": TASK, "candidates": [{"source": f"text {n}"} for n in range(3)]}
        batch = client.post("/v1/batches", json=asked).json()
        assert client.delete(f"/v1/jobs/{batch['jobs'][1]}").json() == {"cancelled": 1}
        assert client.get(f"/v1/jobs/{batch['jobs'][1]}").json()["state"] == "cancelled"
        assert client.delete(f"/v1/batches/{batch['id']}").json() == {"cancelled": 2}
        told = client.get(f"/v1/batches/{batch['id']}").json()
        assert (told["done"], told["counts"]["cancelled"]) == (True, 3)
        assert client.delete(f"/v1/batches/{batch['id']}").json() == {"cancelled": 0}
        assert problem(client.delete("/v1/batches/another"))["kind"] == "unknown"


def test_limits_of_a_batch_and_of_the_queue():
    with serving(Told(held=True), Settings(batch=4, queue=6, source_characters=100)) as client:
        def asked(count: int, text: str = "text"):
            return client.post("/v1/batches", json={"task": TASK, "candidates": [{"source": text}] * count})

        assert (asked(5).status_code, problem(asked(5))["kind"]) == (413, "batch-size")
        assert problem(asked(1, "x" * 101))["kind"] == "too-large"
        assert asked(4).status_code == 202
        full = asked(3)
        assert (full.status_code, problem(full)["kind"]) == (429, "queue-full") and full.headers["Retry-After"]
        assert asked(2).status_code == 202


def test_limits_of_a_request():
    with serving(Told(), Settings(body_bytes=1000)) as client:
        def parts():
            yield from itertools.repeat(b" " * 100, 20)

        told = client.post("/v1/evaluate", json={"task": TASK, "source": "x" * 1000})
        untold = client.post("/v1/evaluate", content=parts(), headers={"Content-Type": "application/json"})
        for answer in (told, untold):
            assert (answer.status_code, problem(answer)["kind"]) == (413, "too-large")


def test_more_requests_than_may_wait():
    bench = Told(held=True)
    with serving(bench, Settings(waiting=1)) as client:
        import threading

        asked = {"task": TASK, "source": "text"}
        waiting = threading.Thread(target=lambda: client.post("/v1/evaluate", json=asked))
        waiting.start()
        until(lambda: bench.taken)
        with httpx.Client(base_url=client.base_url, trust_env=False) as other:
            answer = other.post("/v1/evaluate", json=asked)
            assert (answer.status_code, problem(answer)["kind"]) == (503, "busy")
        bench.release()
        waiting.join()


def test_old_jobs_are_forgotten():
    with serving(Told(), Settings(keep=3)) as client:
        ids = [client.post("/v1/evaluate", json={"task": TASK, "source": f"{n}"}).json()["id"] for n in range(5)]
        known = [client.get(f"/v1/jobs/{id}").status_code for id in ids]
        assert known[0] == 404 and known[-1] == 200 and known.count(200) <= 3


def test_a_token_is_asked_of_all_but_the_health():
    with serving(Told(), token="0123456789abcdef") as client:
        assert client.get("/v1/targets", params={"pattern": "cpp:*"}).status_code == 200
        with httpx.Client(base_url=client.base_url, trust_env=False) as other:
            for given in ({}, {"Authorization": "Bearer 0123456789abcdee"}, {"Authorization": "Basic 0123456789abcdef"},
                          {"Authorization": "Bearer"}, {"Authorization": "Bearer \xe9".encode("latin-1").decode("latin-1")}):
                for path in ("/v1/targets", "/docs", "/openapi.json", "/status/x", "/mcp", "/v1/batches/x"):
                    answer = other.get(path, headers={k: v.encode("latin-1") for k, v in given.items()})  # type: ignore[arg-type]
                    assert (answer.status_code, problem(answer)["kind"]) == (401, "unauthorized")
            assert other.get("/v1/health").json()["status"] == "ok" and other.get("/health").status_code == 200


def test_without_a_token_only_names_of_loopback_are_answered(client):
    """A page in a browser may have a name of its own lead to 127.0.0.1."""
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        assert problem(client.get("/v1/health", headers={"Host": host}))["kind"] == "wrong-host"
    for host in ("localhost", "LOCALHOST:99", "[::1]:7", "127.0.0.1"):
        assert client.get("/v1/health", headers={"Host": host}).status_code == 200


def test_without_a_token_no_page_from_elsewhere_is_answered(client):
    """A browser sends a form or plain text to any address, and says where its page is from."""
    body = b'{"target": "cpp:cpu", "operator": "softmax"}'
    for origin in ("https://evil.example", "http://localhost.evil.example:80", "null"):
        answer = client.post("/v1/tasks", content=body, headers={"Origin": origin, "Content-Type": "text/plain"})
        assert (answer.status_code, problem(answer)["kind"]) == (403, "wrong-origin")
    assert client.post("/v1/tasks", json=TASK, headers={"Origin": "http://localhost:3000"}).status_code == 200


def test_a_target_that_nobody_has_is_answered_at_once():
    with serving(Told(have=frozenset({"cpp:cpu"}))) as client:
        answer = client.post("/v1/tasks", json={**TASK, "target": "hip:gfx942"})
        assert (answer.status_code, problem(answer)["kind"]) == (404, "no-such-target")
        assert [t["target"] for t in client.get("/v1/targets").json()["targets"]] == ["cpp:cpu"]


def test_a_failure_of_the_server_is_no_traceback():
    def fails(ticket):
        raise AssertionError("a secret of the server")

    class Broken(Told):
        def put(self, tickets):
            raise RuntimeError("a secret of the server")

    with serving(Broken(fails)) as client:
        answer = client.post("/v1/evaluate", json={"task": TASK, "source": "x"})
        assert httpx.get(f"{client.base_url}/v1/health", trust_env=False).json()["jobs"]["queued"] == 0
    assert (answer.status_code, problem(answer)["kind"]) == (500, "internal")
    assert "secret" not in answer.text


def test_the_openapi_says_all_of_it(client):
    page = client.get("/openapi.json").json()
    for path in ("/v1/tasks", "/v1/evaluate", "/v1/batches", "/v1/batches/{id}/results", "/v1/jobs/{id}", "/v1/targets",
                 "/v1/inspect", "/v1/compare", "/v1/health", "/evaluate", "/status/{task_id}",
                 "/results/{task_id}"):  # fmt: skip
        assert path in page["paths"]
        for operation in page["paths"][path].values():
            assert "$ref" in str(operation["responses"]["200" if "200" in operation["responses"] else "202"]), path
    assert set(page["components"]["schemas"]["Problem"]["properties"]) == {"kind", "what", "where", "next"}
    assert client.get("/docs").status_code == 200


def test_many_that_ask_for_one_task_at_once_have_it_read_once(monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    from portakern.jobs.tracing import traced
    from portakern.serve import desk

    read = []

    def slowly(spec, allowed):
        read.append(spec.id)
        time.sleep(0.3)
        return traced(spec, allowed)

    monkeypatch.setattr(desk, "traced", slowly)
    with serving(Told()) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: client.post("/v1/evaluate", json={"task": TASK, "source": f"{n}"}), range(8)))
    assert {a.status_code for a in answers} == {200} and len(read) == 1
