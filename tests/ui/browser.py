"""Chromium, and what a test does with the page."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

WAIT_S = 15


class Browser:
    """One browser with one tab."""

    def __init__(self, width: int = 1400, height: int = 900, dark: bool = False) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or "chromium"
        self.profile = tempfile.mkdtemp(prefix="placewright-chromium-")
        for argument in (
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--no-first-run",
            f"--user-data-dir={self.profile}",
            f"--window-size={width},{height}",
            *(["--force-dark-mode"] if dark else []),
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = shutil.which("chromedriver") or "chromedriver"
        self.driver = webdriver.Chrome(options=options, service=Service(driver))
        # Selenium's window size has the browser's frame in it.
        self.resize(width, height)
        if dark:
            self.prefer("dark")

    def prefer(self, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def resize(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def offline(self, is_offline: bool) -> None:
        self.driver.execute_cdp_cmd("Network.enable", {})
        conditions = {"offline": is_offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)

    def open(self, url: str) -> None:
        self.driver.get(url)

    def go(self, fragment: str) -> None:
        self.run("location.hash = arguments[0]", fragment)

    def run(self, script: str, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "body") -> str:
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def key(self, *keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(*keys)

    def fill(self, selector: str, text: str) -> None:
        field = self.find(selector)
        field.clear()
        field.send_keys(text)

    def choose(self, label: str, value: str) -> None:
        """Chooses a value in the list with this label, as a user does."""
        self.run(
            """const label = [...document.querySelectorAll('label')].find((l) => l.firstChild.textContent === arguments[0]);
            const list = label.querySelector('select');
            list.value = arguments[1];
            list.dispatchEvent(new Event('change', { bubbles: true }));""",
            label,
            value,
        )

    def until(self, condition, seconds: float = WAIT_S) -> bool:
        """Whether a condition comes true in time. It may fail while the page changes."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if condition():
                    return True
            except Exception:  # noqa: BLE001  (an element that has just been replaced)
                pass
            time.sleep(0.05)
        return False

    def until_text(self, text: str, selector: str = "body", seconds: float = WAIT_S) -> bool:
        return self.until(lambda: text in self.text(selector), seconds)

    def console(self) -> list[str]:
        """What the browser has reported since the last call, but for what it says of a broken connection."""
        entries = self.driver.get_log("browser")
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def picture(self, path: pathlib.Path) -> None:
        self.driver.save_screenshot(str(path))

    def sign_in(self, name: str, password: str) -> None:
        self.until(lambda: self.find("input[name=name]"))
        self.fill("input[name=name]", name)
        self.fill("input[name=password]", password)
        self.key(Keys.ENTER)

    def end(self) -> None:
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)


def axe_source(folder: pathlib.Path) -> str | None:
    """The script of axe-core, fetched from npm into a folder that is not committed; none without npm."""
    script = folder / "node_modules/axe-core/axe.min.js"
    if not script.exists() and shutil.which("npm"):
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--prefix", str(folder), "axe-core@4"]
        subprocess.run(command, check=False, capture_output=True, timeout=120)
    return script.read_text() if script.exists() else None


def violations(browser: Browser, source: str) -> list[str]:
    """What axe-core finds on the page as it is."""
    # By the debugger's way, because the page's policy allows no script but its own.
    browser.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": source})
    result = browser.driver.execute_cdp_cmd(
        "Runtime.evaluate",
        {
            "expression": "axe.run(document, {resultTypes: ['violations']}).then((r) => JSON.stringify(r.violations.map((v) => "
            "`${v.id} (${v.impact}): ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 140) + ' ' + (n.any[0]?.message ?? '')).join(' | ')}`)))",
            "awaitPromise": True,
            "returnByValue": True,
        },
    )
    return json.loads(result["result"]["value"])
