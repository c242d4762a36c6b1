"""The compose file of a server: what its containers run, run here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from postgres_server import url_for
from test_server import Client
from waiting import LIMIT_S

FOLDER = Path(__file__).parent.parent / "examples" / "server"


class ComposeLoader(yaml.SafeLoader):
    """Reads the tags of compose, too."""


ComposeLoader.add_constructor("!reset", lambda *_: [])


TEXT = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
SERVICES = yaml.load(TEXT, ComposeLoader)["services"]  # noqa: S506 - a loader of plain values


def test_only_the_proxy_is_reached_from_elsewhere():
    """And every volume that a service names is there."""
    assert [name for name, each in SERVICES.items() if each.get("ports")] == ["proxy"]
    mounted = {place for each in SERVICES.values() for place in each.get("volumes", ())}
    named = {place.split(":")[0] for place in mounted if not place.startswith(".")}
    volumes = yaml.load(TEXT, ComposeLoader)["volumes"]  # noqa: S506 - the same
    assert named | {"data"} == set(volumes)


def test_what_the_compose_file_runs_serves_a_memory(tmp_path):
    """With a token made as its head says, on PostgreSQL, until its health is well."""
    alveus = SERVICES["alveus"]
    (making,) = re.findall("run --rm alveus (.*)", TEXT)

    def words(given):
        own = [word.replace("/tokens/", f"{tmp_path}/") for word in given]
        return [sys.executable, "-m", "alveus", *own, "--json"]

    environment = os.environ | {"ALVEUS_DB": url_for(tmp_path)}
    token = json.loads(subprocess.check_output(words(making.split()), env=environment))["token"]
    command = ["0" if word == "8080" else word for word in alveus["command"]]
    with subprocess.Popen(words(command), env=environment, stdout=subprocess.PIPE) as served:
        try:
            assert served.stdout is not None
            port = int(json.loads(served.stdout.readline())["url"].rsplit(":", 1)[1])
            _, python, *check = alveus["healthcheck"]["test"]
            assert python == "python"
            asked = [word.replace(":8080", f":{port}") for word in check]
            subprocess.run([sys.executable, *asked], check=True, timeout=LIMIT_S)
            client = Client(port, token)
            assert client.ask("GET", "/v1/keys") == (200, {"keys": [], "more": False})
            client.close()
            stranger = Client(port)
            assert stranger.ask("GET", "/v1/keys")[0] == 401
            stranger.close()
        finally:
            served.terminate()
