"""What `deploy/` has for containers, as far as it can be tried without them."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import thalweg as tw

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def orders(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program of the image."""
    spec = importlib.util.spec_from_file_location("deployed_orders", DEPLOY / "orders.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.merge
def test_the_flow_goes_on_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told to end it ends behind a commit, and a second run counts each order once; what is no order stops nothing."""
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
    from thalweg_lab import brokers

    module = orders(monkeypatch)
    monkeypatch.setenv("STATE", str(tmp_path / "ckpt"))
    with brokers.mock() as broker:
        monkeypatch.setenv("BROKERS", broker.servers)
        broker.producer.list_topics("totals", timeout=10)
        for number, value in enumerate((b'{"user": "ann", "cents": 1}', b"nonsense")):
            broker.send("orders", value, number, timestamp=1_700_000_000_000 + number)
        broker.flush()
        container = subprocess.Popen(
            [sys.executable, str(DEPLOY / "orders.py")], stdout=subprocess.PIPE, text=True
        )
        assert container.stdout is not None
        assert container.stdout.readline().startswith("rejected topic 'orders' partition")
        container.send_signal(signal.SIGTERM)  # docker stop
        assert container.wait(60) == 0
        container.stdout.close()
        broker.send("orders", b'{"user": "ann", "cents": 2}', 2, timestamp=1_700_000_000_009)
        broker.flush()
        module.main(follow=False)
        reads = tw.Flow("reads")
        reads.source("totals", module.Total).sink("out")
        totals = tw.kafka(broker.servers, "totals", follow=False)
        assert tw.run(reads, {"totals": totals}).rows("out") == [("ann", 1), ("ann", 3)]


def test_the_image_copies_what_there_is() -> None:
    """Each COPY of the Dockerfile names files of the repository that its .dockerignore lets through."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    copied = [
        name
        for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE)
        for name in [one for one in line.split() if not one.startswith("--")][:-1]
    ]
    assert {"pyproject.toml", "src", "deploy/orders.py"} <= set(copied)
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert ignored[0] == "*"
    assert [name for name in copied if f"!{name}" not in ignored] == []


def test_the_image_is_told_what_there_is() -> None:
    """The extra, the program that is started, and the folders of cache and state; its Python is one that is tried."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (version,) = re.findall(r"^FROM python:([\d.]+)-slim$", text, re.MULTILINE)
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]
    (extra,) = re.findall(r"pip install .* -c (?:requirements\.lock) '\.\[(\w+)\]'", text)
    assert extra in project["optional-dependencies"]
    (started,) = re.findall(r'^CMD \["python", "(.+)"\]$', text, re.MULTILINE)
    workdir = re.findall(r"^WORKDIR (.+)$", text, re.MULTILINE)[-1]
    assert re.search(rf"^COPY .*deploy/{started} {workdir}/{started}$", text, re.MULTILINE)
    folders = set(re.findall(r'"(/\w+)"', re.findall(r"^VOLUME (.+)$", text, re.MULTILINE)[0]))
    assert folders == {"/state", "/cache"} and "THALWEG_CACHE_DIR=/cache" in text
    assert all(re.search(rf"mkdir .*{one}\b", text) for one in folders)


def test_the_page_names_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands go to services of the Compose file; topics, a message, the operator and the key are the flow's."""
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, which the docs extra brings")
    page = (
        (ROOT / "docs" / "howto" / "containers.md").read_text(encoding="utf-8").replace("\\\n", " ")
    )
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert (
        set(re.findall(r"compose\.yaml (?:exec|logs) (\w+)", page))
        == {"broker", "flow"}
        <= set(services)
    )
    module = orders(monkeypatch)
    nodes = {node.name: node for node in module.flow.nodes}
    topics = {"orders", "totals"} <= set(nodes)
    assert topics and "for topic in orders totals;" in services["topics"]["command"][0]
    assert "topic produce orders" in page and "topic consume totals" in page
    (message,) = re.findall(r'echo "(\{.+?\})"', page)
    order = module.Order(**json.loads(message.replace("\\", "")))
    (folder, operator, key) = re.findall(
        r"thalweg state show (\S+) --operator (\w+) --key (\w+)", page
    )[0]
    assert operator in nodes and key == order.user
    assert folder == services["flow"]["environment"]["STATE"]
    assert {one.partition(":")[2] for one in services["flow"]["volumes"]} == {"/state", "/cache"}


def test_compose_names_what_there_is() -> None:
    """The file parses, and services, volumes and the Dockerfile that it names are there."""
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, which the docs extra brings")
    told = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services = told["services"]
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        volumes = {one.split(":")[0] for one in service.get("volumes", ())}
        assert volumes <= set(told["volumes"])
    build = services["flow"]["build"]
    assert ((DEPLOY / build["context"]).resolve() / build["dockerfile"]).exists()
    assert set(services["flow"]["environment"]) == set(
        re.findall(r'environ\.get\("(\w+)"', (DEPLOY / "orders.py").read_text(encoding="utf-8"))
    )
