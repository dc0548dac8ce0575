"""Downloads of facula.hub, from a server on this machine."""

import hashlib
import http.server
import io
import sys
import threading
import types
import urllib.error
import zipfile

import pytest

import facula
from facula import hub


def checkpoint(value, **options):
    stream = io.BytesIO()
    facula.save({"weight": facula.tensor([value])}, stream, **options)
    return stream.getvalue()


def around(name, content):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, content)
    return stream.getvalue()


CONTENT = checkpoint(1.0)
HASH = hashlib.sha256(CONTENT).hexdigest()
FILES = {
    "/net.pth": CONTENT,
    f"/net-{HASH[:8]}.pth": CONTENT,
    "/net-00000000.pth": CONTENT,
    "/old.zip": around("inside.pth", checkpoint(2.0, _use_new_zipfile_serialization=False)),
    "/empty": b"",
    "/large": bytes(range(256)) * 2000,
    "/cut": b"x" * 1000,
}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.path, self.headers["User-Agent"]))
        path = self.path.partition("?")[0]
        if path == "/moved.pth":
            self.send_response(302)
            self.send_header("Location", "/net.pth")
            self.end_headers()
        elif path in FILES:
            self.send_response(200)
            self.send_header("Content-Length", str(len(FILES[path]) + (path == "/cut")))
            self.end_headers()
            self.wfile.write(FILES[path])
        else:
            self.send_error(404)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.asked = []
    made.url = f"http://127.0.0.1:{made.server_address[1]}"
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Where downloads go unless a test says otherwise; no proxy stands between."""
    monkeypatch.setattr(hub, "_chosen_dir", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "home" / "hub" / "checkpoints"


@pytest.mark.parametrize("path", ["/net.pth", "/empty", "/large", "/moved.pth"])
def test_a_download_is_what_the_server_has(server, home, tmp_path, path):
    hub.download_url_to_file(server.url + path, str(tmp_path / "copy"), progress=False)
    assert (tmp_path / "copy").read_bytes() == FILES["/net.pth" if path == "/moved.pth" else path]
    assert server.asked[0] == (path, "facula.hub")


@pytest.mark.parametrize(("path", "error"), [("/none", urllib.error.HTTPError), ("/cut", RuntimeError)])
def test_a_failed_download_leaves_what_was_there(server, home, tmp_path, path, error):
    (tmp_path / "copy").write_text("before")
    with pytest.raises(error, match="404|^download_url_to_file: expected 1001 bytes, got 1000 of them$") as caught:
        hub.download_url_to_file(server.url + path, str(tmp_path / "copy"), progress=False)
    getattr(caught.value, "close", int)()  # an HTTPError is the server's answer too, which Python 3.14 wants to be closed
    assert (tmp_path / "copy").read_text() == "before" and [p.name for p in tmp_path.iterdir()] == ["copy"]


def test_progress_is_told_on_standard_error(server, home, tmp_path, capsys):
    hub.download_url_to_file(server.url + "/large", str(tmp_path / "copy"))
    told = capsys.readouterr()
    assert "copy" in told.err and not told.out
    hub.download_url_to_file(server.url + "/large", str(tmp_path / "copy"), progress=False)
    assert capsys.readouterr() == ("", "")


def test_progress_is_the_bar_of_tqdm_where_it_is_installed(server, home, tmp_path, monkeypatch, capsys):
    bars = []

    class Bar:
        def __init__(self, total, desc, **settings):
            self.total, self.name, self.done, self.closed = total, desc, 0, False
            bars.append(self)

        def update(self, count):
            self.done += count

        def close(self):
            self.closed = True

    for name in ("tqdm", "tqdm.auto"):
        monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(tqdm=Bar))
    hub.download_url_to_file(server.url + "/large", str(tmp_path / "copy"))
    (bar,) = bars
    assert (bar.name, bar.closed, bar.done) == ("copy", True, (tmp_path / "copy").stat().st_size)
    assert bar.total in (None, bar.done) and not capsys.readouterr().err


def test_a_checkpoint_is_fetched_once(server, home):
    for _ in range(2):
        found = hub.load_state_dict_from_url(server.url + "/net.pth?version=2", progress=False)
        assert found["weight"].tolist() == [1.0]
    assert len(server.asked) == 1 and [p.name for p in home.iterdir()] == ["net.pth"]
    hub.load_state_dict_from_url(server.url + "/net.pth", progress=False, file_name="other.pth")
    assert sorted(p.name for p in home.iterdir()) == ["net.pth", "other.pth"]


def test_a_checkpoint_goes_where_it_is_told_to(server, home, tmp_path):
    hub.load_state_dict_from_url(server.url + "/net.pth", str(tmp_path / "models"), progress=False)
    hub.set_dir(str(tmp_path / "chosen"))
    hub.load_state_dict_from_url(server.url + "/net.pth", progress=False)
    assert hub.get_dir() == str(tmp_path / "chosen") and not home.exists()
    assert (tmp_path / "models" / "net.pth").exists() and (tmp_path / "chosen" / "checkpoints" / "net.pth").exists()


def test_the_name_holds_the_hash(server, home):
    hub.load_state_dict_from_url(f"{server.url}/net-{HASH[:8]}.pth", progress=False, check_hash=True)
    with pytest.raises(RuntimeError, match=f"^download_url_to_file: expected SHA-256 00000000..., got {HASH}$"):
        hub.load_state_dict_from_url(f"{server.url}/net-00000000.pth", progress=False, check_hash=True)
    assert [p.name for p in home.iterdir()] == [f"net-{HASH[:8]}.pth"]
    hub.load_state_dict_from_url(f"{server.url}/net-00000000.pth", progress=False)


def test_a_zip_around_a_checkpoint_is_opened(server, home):
    for _ in range(2):
        found = hub.load_state_dict_from_url(server.url + "/old.zip", progress=False, map_location="meta")
        assert found["weight"].is_meta and found["weight"].shape == (1,)
    assert sorted(p.name for p in home.iterdir()) == ["inside.pth", "old.zip"]


@pytest.mark.parametrize("what", ["list", "help", "load"])
def test_code_is_not_fetched(what):
    arguments = ("owner/repository",) if what == "list" else ("owner/repository", "net")
    with pytest.raises(NotImplementedError, match=f"^hub.{what}: no code is fetched; clone 'owner/repository'"):
        getattr(hub, what)(*arguments)
    with pytest.raises(ValueError, match=f"^hub.{what}: source must be 'github' or 'local', got 'web'"):
        getattr(hub, what)(*arguments, source="web")


def test_a_server_that_says_nothing_is_given_up(tmp_path):
    import socket

    before = socket.getdefaulttimeout()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        socket.setdefaulttimeout(0.2)
        try:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/net.pth"
            with pytest.raises((TimeoutError, OSError), match="timed out"):
                hub.download_url_to_file(url, str(tmp_path / "net.pth"), progress=False)
        finally:
            socket.setdefaulttimeout(before)
    assert hub._patience() == 60.0 and not list(tmp_path.iterdir())
