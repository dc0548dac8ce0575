"""Looks at the built documentation site in a browser: `python .ci/look_at_docs.py [--site build/docs] [--out build/looks]`.

Headless Chromium (Debian: `apt-get install chromium`) opens the main pages as on a desk (1280 wide) and on a phone (390
wide). An error of a script, a file that is not found, and a page that is wider than the window are faults. Pictures of
what was seen are written to --out, for who wants to look as well.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).resolve().parents[1]
WIDTHS = {"desk": 1280, "phone": 390}
HEIGHT = 1500
PAGES = (
    "index.html", "installation.html", "tutorials/tour.html", "tutorials/gpt.html", "tutorials/profiling.html",
    "gallery.html", "tutorials/budget.html", "coming_from_pytorch.html", "distributed.html",
    "api/index.html", "api/torch.html", "api/torch.add.html", "api/torch.nn.Linear.html",
    "api/torch.nn.Conv2d.html", "api/torch.nn.GELU.html", "api/torch.optim.Adam.html", "api/torch.distributions.Beta.html",
    "api/torch.nn.functional.grid_sample.html", "api/torch.nn.Module.html", "api/torch.Tensor.html",
    "api/torch.nn.functional.html", "supported.html?name=grid", "performance.html", "charts.html",
    "internals.html", "internals/architecture.html",
    "examples/index.html", "search.html?q=cross_entropy",
)  # fmt: skip

#: A page in a frame as wide as a phone or a window, and what is told of it on the console.
FRAME = """<!doctype html><style>body {{ margin: 0 }} iframe {{ border: 0; width: {width}px; height: {height}px }}</style>
<iframe id="shown"></iframe><script>
const frame = document.getElementById("shown");
frame.onload = () => {{
  frame.contentWindow.addEventListener("error", (event) => console.log(`LOOK script error: ${{event.message}}`));
  setTimeout(() => {{
    const page = frame.contentDocument, width = page.documentElement.clientWidth;
    if (page.documentElement.scrollWidth > width + 1) {{
      const hides = (e) => /auto|scroll|hidden/.test(getComputedStyle(e).overflowX);
      const scrolls = (e) => e && e !== page.body && (hides(e) || scrolls(e.parentElement));
      const outside = (e) => e.getBoundingClientRect().right > width + 1 && !scrolls(e.parentElement);
      const wide = [...page.body.querySelectorAll("*")].filter(outside);
      const names = wide.slice(0, 3).map((e) => `${{e.tagName}}.${{e.className}} ${{e.textContent.trim().slice(0, 40)}}`);
      console.log(`LOOK wider than the window: ${{page.documentElement.scrollWidth}} of ${{width}}: ${{names.join(" | ")}}`);
    }}
    console.log(`LOOK seen ${{page.title}}`);
  }}, 1500);
}};
frame.src = {page!r};
</script>"""


class Handler(SimpleHTTPRequestHandler):
    not_found: ClassVar[list[str]] = []

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        if self.path != "/favicon.ico":  # browsers ask for it by themselves
            self.not_found.append(f"{code} {self.path}")
        super().send_error(code, message, explain)

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if asked.path != "/look-at":
            return super().do_GET()
        found = parse_qs(asked.query)
        text = FRAME.format(page="/" + found["page"][0], width=int(found["width"][0]), height=HEIGHT).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *what: object) -> None:
        pass


def look(browser: str, port: int, page: str, width: int, picture: Path) -> list[str]:
    """Take a picture, and say what is wrong with the page."""
    address = f"http://127.0.0.1:{port}/look-at?width={width}&page={page.replace('?', '%3F').replace('=', '%3D')}"
    command = [
        browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
        "--enable-logging=stderr",
        "--virtual-time-budget=8000", f"--window-size={max(width, 500)},{HEIGHT}", f"--screenshot={picture}", address,
    ]  # fmt: skip
    told = subprocess.run(command, capture_output=True, text=True, timeout=180).stderr
    lines = re.findall(r':CONSOLE[:(]\d+\)?\] "(.*?)", source', told)
    faults = [line for line in lines if re.match(r"Uncaught|Failed to load|LOOK (script|wider)|Refused", line)]
    faults += Handler.not_found
    Handler.not_found.clear()
    if not any(line.startswith("LOOK seen") for line in lines):
        faults.append("was not seen: " + (told.strip().splitlines() or ["the browser said nothing"])[-1])
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--site", type=Path, default=ROOT / "build" / "docs")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "looks", help="folder for the pictures")
    parser.add_argument("pages", nargs="*", default=PAGES, help="pages, instead of the main ones")
    options = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        parser.error("no Chromium is here; on Debian: apt-get install chromium")
    if not (options.site / "index.html").is_file():
        parser.error(f"there is no site in {options.site}; make docs builds it")
    options.out.mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(options.site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wrong = 0
    for page in options.pages:
        for name, width in WIDTHS.items():
            picture = options.out / f"{re.sub(r'[^A-Za-z0-9_.-]', '-', page.replace('.html', ''))}-{name}.png"
            for fault in look(browser, server.server_address[1], page, width, picture.resolve()):
                print(f"{page} ({name}): {fault}")
                wrong += 1
    print(f"{len(options.pages)} pages in {len(WIDTHS)} widths, {wrong} faults; pictures in {options.out}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
