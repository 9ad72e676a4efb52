"""JupyterLab in Chromium: one server and one browser for the module, one notebook a test."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Locator, Page

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCREENSHOTS = Path(__file__).parent / "screenshots"
FAILED = pytest.StashKey[bool]()
QUIET = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
}
READY = """wanted => {
  const panel = window.jupyterapp?.shell?.currentWidget;
  const status = panel?.sessionContext?.session?.kernel?.status;
  return panel?.content?.widgets?.length > 0 && (wanted === 'any' ? Boolean(status) : status === wanted);
}"""


class Notebook:
    """A notebook that is open in Lab."""

    def __init__(self, page: Page, url: str, path: Path) -> None:
        self.page = page
        self.url = url
        self.path = path

    def open(self, kernel: str = "idle") -> None:
        """Load the page, as new or again, and wait for that state of its kernel."""
        self.page.goto(self.url)
        self.page.wait_for_function(READY, arg=kernel, timeout=40_000)

    def run(self, index: int, *, wait: bool = True) -> None:
        """Run a cell; without ``wait`` it is only begun."""
        self.page.evaluate(
            """([index, wait]) => {
              const notebook = window.jupyterapp.shell.currentWidget.content;
              notebook.deselectAll();
              notebook.activeCellIndex = index;
              const done = window.jupyterapp.commands.execute('notebook:run-cell');
              return wait ? done.then(() => null) : null;
            }""",
            [index, wait],
        )

    def output(self, index: int) -> Locator:
        """Give the outputs of a cell."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".jp-Cell-outputArea")

    def panel(self, index: int) -> Locator:
        """Give the live panel below a cell."""
        return self.output(index).locator(".pb-panel")

    def save(self) -> None:
        """Save and wait until it is on disk."""
        self.page.evaluate("window.jupyterapp.commands.execute('docmanager:save').then(() => null)")

    def restart(self) -> None:
        """Restart the kernel, as from the menu."""
        self.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
        self.page.wait_for_function(READY, arg="idle")

    def saved(self, index: int) -> list[Any]:
        """Give the outputs of a cell as they are on disk."""
        return list(nbformat.read(self.path, 4).cells[index].outputs)

    def printed(self, code: str) -> str:
        """Run code in the kernel, beside the notebook, and give what it printed."""
        return str(
            self.page.evaluate(
                """async code => {
                  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
                  const future = kernel.requestExecute({code, store_history: false, allow_stdin: true});
                  let text = '';
                  future.onIOPub = message => {
                    if (message.header.msg_type === 'stream') text += message.content.text;
                    if (message.header.msg_type === 'error') text += message.content.traceback.join('\\n');
                  };
                  await future.done;
                  return text;
                }""",
                code,
            )
        )

    def shot(self, name: str, index: int = 1) -> None:
        """Keep a picture of the window with the output of a cell in its view."""
        self.output(index).locator(":scope > *").first.evaluate(
            "node => node.scrollIntoView({block: 'end'})"
        )
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Path]]:
    root = tmp_path_factory.mktemp("lab")
    home = root / ".jupyter"
    for name, value in QUIET.items():
        file = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))
    token = secrets.token_hex(16)
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
    }
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--port=0", "--ip=127.0.0.1", "--allow-root",
        f"--IdentityProvider.token={token}", "--LabApp.expose_app_in_browser=True",
        f"--ServerApp.root_dir={root}",
    ]  # fmt: skip
    with (root / "lab.log").open("w") as log:
        server = subprocess.Popen(command, cwd=root, env=environment, stdout=log, stderr=log)
    try:
        yield _address(server, home / "runtime", root / "lab.log"), token, root
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(20)
        server.kill()
        server.wait()


def _address(server: subprocess.Popen[bytes], runtime: Path, log: Path) -> str:
    for _ in range(300):
        found = list(runtime.glob(f"jpserver-{server.pid}.json"))
        if found:
            with contextlib.suppress(json.JSONDecodeError):  # half written
                return str(json.loads(found[0].read_text())["url"])
        if server.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api")
    if not Path(CHROMIUM).exists():
        pytest.skip(f"{CHROMIUM} is not installed")
    # For the module only: a started Playwright keeps an event loop running in this thread.
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(15_000)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    yield page
    if request.node.stash.get(FAILED, False):
        SCREENSHOTS.mkdir(exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"failed_{request.node.name}.png")
    context.close()
    assert faults == [], "scripts of the page failed"


@pytest.fixture
def notebook(
    lab: tuple[str, str, Path], page: Page, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Notebook]]:
    url, token, root = lab

    def make(*cells: str) -> Notebook:
        path = root / f"{request.node.name}.ipynb"
        content = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell) for cell in cells]
        )
        content.metadata.kernelspec = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        nbformat.write(content, path)
        made = Notebook(page, f"{url}lab/tree/{path.name}?token={token}&reset", path)
        made.open()
        return made

    yield make
    with contextlib.suppress(Exception):  # the page may have left the notebook
        page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
