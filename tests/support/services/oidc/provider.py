"""The provider as a test sees it: started, told what to tell, and met by a person with a browser."""

from __future__ import annotations

import json
import os
import sys
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.support.run.waiting import wait_until
from tests.support.services.oidc.served import PASSWORD
from tests.support.services.processes import free_port, port_answers
from tests.support.services.services import Services

CLIENT, SECRET = "berth", "the-client-s-secret"


class Provider:
    """`issuer` is what a portal's settings name. `users` are the claims of each person, beside `sub`, which is
    `id-of-NAME`."""

    def __init__(self, services: Services, *, redirect: str, users: dict[str, dict[str, Any]]) -> None:
        folder = services.new_folder("oidc")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.issuer = f"{self.url}/o"
        clients = {CLIENT: {"secret": SECRET, "redirect": [redirect]}}
        (folder / "given.json").write_text(json.dumps({"clients": clients, "users": users}))
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("BERTH_", "DJANGO_"))}
        command = [sys.executable, "-m", "tests.support.services.oidc.served", str(self.port), str(folder)]
        self._process = services.new_process("provider", command, folder, plain)
        self._http = httpx.Client(base_url=self.url, trust_env=False, timeout=20)

    def start(self) -> None:
        """And wait until it serves."""
        self._process.start()
        wait_until(self._answers, "the provider", deadline_s=60)

    def _answers(self) -> bool:
        assert self._process.is_running(), self._process.tail()
        return port_answers(self.port)

    def tell(self, **what: Any) -> None:
        """See `views`: `users`, `lie`."""
        assert self._http.post("/control", json=what).is_success

    def approve(self, address: str, name: str) -> str:
        """What a person's browser is led back to from this address of the provider, after signing in there."""
        with httpx.Client(trust_env=False, timeout=20) as browser:
            answer = browser.get(address)
            assert answer.status_code == 302, answer.text
            form = f"{self.url}{answer.headers['location']}"
            answer = browser.post(form, data={"username": name, "password": PASSWORD})
            answer = browser.get(f"{self.url}{answer.headers['location']}")
            assert answer.status_code == 302, answer.text
            parts = urlsplit(answer.headers["location"])
            return f"{parts.path}?{parts.query}"

    def close(self) -> None:
        self._http.close()
        self._process.kill()
