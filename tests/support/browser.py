"""A real browser without a window, spoken to through two pipes: the DevTools protocol, one JSON text at a time."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "google-chrome", "chrome")
AS_3_AND_4 = "import os, sys; [os.dup2(int(sys.argv[i]), i + 2) for i in (1, 2)]; os.execv(sys.argv[3], sys.argv[3:])"


def find_browser() -> str | None:
    """The first of these that is installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page of it, and what it complained about or asked of the network."""

    def __init__(self, write: int, read: int) -> None:
        self.to = os.fdopen(write, "wb", buffering=0)
        self.back = os.fdopen(read, "rb")
        self.number = 0
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.to.write(json.dumps(message).encode() + b"\0")
        while (told := self.listen()).get("id") != self.number:
            pass
        assert "error" not in told, told["error"]
        return told.get("result", {})

    def listen(self) -> dict[str, Any]:
        """The next thing it says; complaints and requests are noted."""
        text = bytearray()
        while (byte := self.back.read(1)) != b"\0":
            assert byte, "the browser is gone"
            text += byte
        told: dict[str, Any] = json.loads(text)
        match told:
            case {"method": "Runtime.consoleAPICalled", "params": {"type": kind, "args": args}}:
                self.complaints.append(f"console.{kind}: {args}")
            case {"method": "Runtime.exceptionThrown", "params": {"exceptionDetails": details}}:
                self.complaints.append(str(details))
            case {"method": "Log.entryAdded", "params": {"entry": entry}}:
                self.complaints.append(str(entry))
            case {"method": "Network.requestWillBeSent", "params": {"request": {"url": url}}}:
                self.asked.append(url)
        return told

    def open(self, page: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show a file and wait until it is there."""
        self.complaints, self.asked = [], []
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Page.navigate", url=page.as_uri())
        while self.listen().get("method") != "Page.loadEventFired":
            pass

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def picture(self, target: Path) -> None:
        """The whole page as PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        target.write_bytes(base64.b64decode(shot["data"]))

    def print(self, target: Path) -> None:
        """The page on paper, as PDF."""
        paper = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        target.write_bytes(base64.b64decode(paper["data"]))


@contextmanager
def browser(program: str, home: Path) -> Iterator[Browser]:
    """A browser that is gone afterwards. It reads commands from descriptor 3 and answers on 4."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]  # neither is 3 or 4 already
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
    process = subprocess.Popen(
        [sys.executable, "-c", AS_3_AND_4, *map(str, high), program, *options, f"--user-data-dir={home}"],
        pass_fds=high,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for end in (theirs_in, theirs_out, *high):
        os.close(end)
    opened = None
    try:
        opened = Browser(ours_out, ours_in)
        yield opened
    finally:
        process.kill()
        process.wait()
        if opened:
            opened.to.close()
            opened.back.close()
