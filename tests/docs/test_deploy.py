"""What `deploy/` has for containers, as far as it can be tried without them."""

from __future__ import annotations

import importlib.util
import re
import sys
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
    """Two runs count each order once; what is no order is told, and stops nothing."""
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
        module.main(follow=False)
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
