"""Importing thalweg, and describing a connector, loads no client; without the package its name is said."""

from __future__ import annotations

import subprocess
import sys

#: Descriptions by the module of their client, and the name of the extra.
DESCRIBED = {
    ("redis", "redis"): [
        "tw.redis_stream('redis://a', 's').open",
        "lambda: tw.to_redis('redis://a', 's').open(None, '')",
    ],
    ("paho", "mqtt"): ["tw.mqtt('a', 't').client"],
    ("websockets", "websocket"): ["tw.websocket('ws://a').client"],
    ("nats", "nats"): [
        "tw.nats('nats://a', 's').open",
        "lambda: tw.to_nats('nats://a', 's').open(None, '')",
    ],
}


def test_no_client_is_loaded_before_it_is_needed() -> None:
    """Then a missing one is an EnvironmentProblem that says what to install."""
    code = "import sys, thalweg as tw\n"
    for (module, _), made in DESCRIBED.items():
        code += f"opens = [{', '.join(made)}]\n"
        code += f"assert {module!r} not in sys.modules\nsys.modules[{module!r}] = None\n"
        code += "for one in opens:\n    try: one()\n    except tw.EnvironmentProblem as error: print(error)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    for (_, extra), made in DESCRIBED.items():
        assert done.stdout.count(f"pip install 'thalweg[{extra}]'") == len(made), done.stderr
