"""A headless Chromium, driven by its own DevTools protocol over a web socket."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SECONDS = 60
KEYS = {
    "Tab": 9,
    "Enter": 13,
    "PageUp": 33,
    "PageDown": 34,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowRight": 39,
    "+": 187,
    "-": 189,
    "0": 48,
    " ": 32,
}
SHIFT = 8


def find_chromium() -> str | None:
    """Where Chromium is; None if it is nowhere on PATH."""
    return next((found for name in NAMES if (found := shutil.which(name)) is not None), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; where there is none the test is skipped with one line; KAFKALOG_BROWSER=required makes it fail."""
    program = find_chromium()
    if program is None:
        sentence = "Chromium is missing from PATH: the page of `kafkalog report` is not tried in a browser"
        if os.environ.get("KAFKALOG_BROWSER") == "required":
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)
    with tempfile.TemporaryDirectory(prefix="kafkalog-browser-") as profile:
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-extensions",
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            address = next((found.group() for line in process.stderr if (found := re.search(r"ws://\S+", line))), None)
            assert address is not None, "Chromium ended before it listened"
            with connect(address, max_size=None, proxy=None, open_timeout=_SECONDS) as socket:
                yield Browser(socket)
        finally:
            process.terminate()
            process.wait(_SECONDS)
            process.stderr.close()


class Browser:
    """Opens pages."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self._events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol, and what it gives."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        self._socket.send(json.dumps({**message, "sessionId": session} if session else message))
        while True:
            answer: dict[str, Any] = json.loads(self._socket.recv(timeout=_SECONDS))
            if answer.get("id") != self._number:
                self._events.append(answer)
                continue
            assert "error" not in answer, (method, answer["error"])
            result: dict[str, Any] = answer["result"]
            return result

    def events(self, session: str, *methods: str) -> list[dict[str, Any]]:
        """What a page told of itself so far."""
        return [
            each["params"] for each in self._events if each.get("sessionId") == session and each["method"] in methods
        ]

    def open(self, page: Path, *, width: int = 1280, height: int = 900, theme: str = "light") -> Page:
        """A page from a file, loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable", session)
        phone = width < 500
        self.call(
            "Emulation.setDeviceMetricsOverride", session, width=width, height=height, deviceScaleFactor=1, mobile=phone
        )
        self.call("Emulation.setTouchEmulationEnabled", session, enabled=phone)
        features = [
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", session, features=features)
        self.call("Emulation.setFocusEmulationEnabled", session, enabled=True)
        self.call("Page.navigate", session, url=page.as_uri())
        opened = Page(self, session, page)
        opened.wait("document.readyState === 'complete' && location.protocol === 'file:'")
        return opened


class Page:
    """One page in the browser."""

    def __init__(self, browser: Browser, session: str, path: Path) -> None:
        self._browser = browser
        self._session = session
        self._path = path

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol for this page."""
        return self._browser.call(method, self._session, **parameters)

    def close(self) -> None:
        """Leave it."""
        self.call("Page.close")

    def value(self, expression: str) -> Any:
        """What an expression gives in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, (expression, answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Until an expression is true."""
        for _ in range(40 * _SECONDS):
            if self.value(expression):
                return
            time.sleep(0.025)
        raise AssertionError(f"never came true: {expression}")

    def press(self, key: str, modifiers: int = 0) -> None:
        """A key, as from the keyboard."""
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        code = {"key": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown", **code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """The mouse: `mouseMoved`, `mousePressed`, `mouseReleased`, `mouseWheel`."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def touch(self, kind: str, *points: tuple[float, float]) -> None:
        """Fingers: `touchStart`, `touchMove`, `touchEnd`."""
        self.call(
            "Input.dispatchTouchEvent",
            type=kind,
            touchPoints=[{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)],
        )

    def complaints(self) -> list[Any]:
        """Errors, warnings and whatever else the page said on its console."""
        self.value("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")
        return self._browser.events(
            self._session, "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"
        )

    def requests(self) -> list[str]:
        """Addresses that were asked for, the page's own apart; data in an address is no request."""
        asked = self._browser.events(self._session, "Network.requestWillBeSent")
        urls = [each["request"]["url"] for each in asked]
        return [url for url in urls if url not in (self._path.as_uri(), "about:blank") and not url.startswith("data:")]

    def screenshot(self, target: Path) -> None:
        """What is seen, as PNG."""
        target.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
