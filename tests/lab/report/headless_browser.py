"""A page in headless Chromium, driven through its debugging pipe: no driver, no socket, no further package."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests import HANGS


def find_chromium() -> str | None:
    """The browser's path, if one is installed."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


class Browser:
    """One tab. Collects console messages, exceptions and every request."""

    def __init__(self, path: str) -> None:
        self.profile = tempfile.mkdtemp(prefix="chromium-")
        to_browser, self.out = os.pipe()
        self.inn, from_browser = os.pipe()
        arguments = [
            path, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
            "--disable-background-networking", "--no-first-run", f"--user-data-dir={self.profile}",
            "--remote-debugging-pipe", "about:blank",
        ]  # fmt: skip

        # Chromium reads its commands from descriptor 3 and answers on 4.
        def wire() -> None:
            a, b = os.dup(to_browser), os.dup(from_browser)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            arguments, preexec_fn=wire, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []
        targets = self.send("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, timeout: float = HANGS, **parameters: Any) -> dict[str, Any]:
        """One command, and its result."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + timeout
        while True:
            answer = self._receive(end)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.inn], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.inn, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def open(self, page: Path, width: int = 1200, dark: bool = False, height: int = 900) -> None:
        """Load a file and wait until it is there."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 800,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.send("Page.navigate", url=page.resolve().as_uri())
        end = time.monotonic() + HANGS
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._receive(end))

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def complaints(self) -> list[dict[str, Any]]:
        """Exceptions, console errors and warnings, and log entries so far."""
        self.run("1")
        bad = [e for e in self.events if e.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")]
        messages = [e for e in self.events if e.get("method") == "Runtime.consoleAPICalled"]
        return bad + [e for e in messages if e["params"]["type"] in ("error", "warning", "assert")]

    def requests(self) -> list[str]:
        """Every address asked for, images in the page itself (data:) left out."""
        self.run("1")
        asked = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith("data:")]

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """A PNG, of the whole page or of what is in view."""
        picture = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(picture["data"]))

    def close(self) -> None:
        """End the browser that was started here."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)
        os.close(self.out)
        os.close(self.inn)
        shutil.rmtree(self.profile, ignore_errors=True)
